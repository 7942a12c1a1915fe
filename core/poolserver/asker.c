/* A manager's questions to its runners: a link for each, since thousands of idle runners would cost
 * more than dialling now and then. */
#include <poolserver/asker.h>

#include <base/utf8.h>
#include <stdlib.h>

struct asked {
    LIST_ENTRY(asked) link_of_asker;
    struct asker *asker;
    struct engage_link *link;
    uint64_t ticket;
};

static void asked_end(struct asked *q)
{
    if (q->link) {
        rpc_client(q->asker->rpc)->link_close(q->link);
    }
    LIST_REMOVE(q, link_of_asker);
    free(q);
}

/* One that takes connections is alive: what takes its time is the status. */
static void asker_on_status(void *ud, const struct rpc_status_result *r)
{
    struct asked *q = ud;
    struct asker *a = q->asker;
    struct npm_event answer = { .kind = NPM_SILENT };
    char fault[NPM_FAULT_MAX + 1];
    uint64_t ticket = q->ticket;

    if (r->grpc_status == GRPC_OK) {
        answer.kind = NPM_REPORTED;
        answer.active = r->active > 0 ? (uint32_t)r->active : 0;
        utf8_copy(fault, sizeof(fault), r->error_text[0] ? r->error_text : "its status fails");
        answer.fault = r->failed ? fault : NULL;
    } else if (r->grpc_status == GRPC_DEADLINE && rpc_client(a->rpc)->link_is_up(q->link)) {
        answer.kind = NPM_REPORTED;
        answer.mute = true;
        answer.fault = "no answer to Status in time";
    }
    asked_end(q);
    if (a->told) {
        a->told(a->ud, ticket, &answer);
    }
}

int asker_ask(struct asker *a, const char *address, uint64_t ticket)
{
    struct engage_client *client = rpc_client(a->rpc);
    struct asked *q = calloc(1, sizeof(*q));

    if (!q) {
        return FN_E_EXHAUSTED;
    }
    q->asker = a;
    q->ticket = ticket;
    LIST_INSERT_HEAD(&a->asked, q, link_of_asker);
    q->link = client->link_open(client, address, NULL, NULL, NULL);
    if (!q->link ||
        rpc_status(q->link, env_now_ns(a->env) + ASKER_TIMEOUT_NS, asker_on_status, q) < 0) {
        asked_end(q);
        return FN_E_EXHAUSTED;
    }
    return 0;
}

void asker_init(struct asker *a, struct env *env, struct rpc *rpc,
                void (*told)(void *ud, uint64_t ticket, const struct npm_event *answer), void *ud)
{
    *a = (struct asker){ .env = env, .rpc = rpc, .told = told, .ud = ud };
    LIST_INIT(&a->asked);
}

void asker_stop(struct asker *a)
{
    a->told = NULL;
}

void asker_finish(struct asker *a)
{
    struct asked *q;

    while ((q = LIST_FIRST(&a->asked))) {
        LIST_REMOVE(q, link_of_asker);
        free(q);
    }
}
