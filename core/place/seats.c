/* Seats: where a runner stands in the listings that have it.
 *
 * While a listing is bound, runners stand in it and in the current one. The two have numbers of
 * different parity, hence a runner's two seats. */
#include <place/place_int.h>

static struct seat *seat_of(struct place_runner *r, const struct listing *l)
{
    return &r->seats[l->no & 1];
}

bool seat_is_in(struct place_runner *r, const struct listing *l)
{
    return seat_of(r, l)->listing_no == l->no;
}

void seat_take(struct place_runner *r, struct listing *l)
{
    *seat_of(r, l) = (struct seat){ .listing_no = l->no, .index = l->n };
    l->runners[l->n] = r;
    l->inflight[l->n] = r->inflight;
    l->inflight_total += r->inflight;
    l->n++;
}

static void follow(struct listing *l, struct place_runner *r, uint32_t n)
{
    if (l && seat_is_in(r, l)) {
        l->inflight_total += n;
        l->inflight_total -= r->inflight;
        l->inflight[seat_of(r, l)->index] = n;
    }
}

void runner_set_inflight(struct place_runner *r, uint32_t n)
{
    follow(r->group->snap->listing, r, n);
    follow(r->group->binding, r, n);
    r->inflight = n;
}

const char *runner_labels(struct place_runner *r)
{
    const struct listing *now = r->group->snap->listing;

    return seat_is_in(r, now) ? now->list[seat_of(r, now)->index].labels : NULL;
}

uint32_t seat_index(struct place_runner *r, const struct listing *l)
{
    return seat_of(r, l)->index;
}
