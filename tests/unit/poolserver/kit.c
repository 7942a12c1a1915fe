/* The manager, its service and both ends of the wire between them and load balancers. */
#include "kit.h"

#include <base/log.h>
#include <rpc/server_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 8

static char names[KIT_GROUPS_MAX][NAME_MAX_BYTES];
static const char *name_list[KIT_GROUPS_MAX];

static void must(bool what, const char *text)
{
    if (!what) {
        fprintf(stderr, "kit of poolserver: %s\n", text);
        abort();
    }
}

/* ---- the control plane ----------------------------------------------------------------------- */

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    const struct pool_kit *k = inst;
    char id[32], address[32];
    struct fn_machine m = { sizeof(m), FN_MACHINE_READY, id, address, 1024, "zone=a" };

    (void)op;
    (void)reterr;
    for (uint32_t i = 0; i < k->machines[atoi(group + 1)]; i++) {
        snprintf(id, sizeof(id), "%s-%u", group, i);
        snprintf(address, sizeof(address), "10.0.0.1:%u", 1 + i);
        out->add(out->ud, &m);
    }
    return 0;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)n;
    (void)request_id;
    *ret_accepted = 0;
    return err_set(reterr, FN_E_EXHAUSTED, "no machine is left");
}

/* The last one goes, whichever is meant. */
static int remove_one(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                      struct fn_error *reterr)
{
    struct pool_kit *k = inst;

    (void)op;
    (void)machine_id;
    (void)reterr;
    k->machines[atoi(group + 1)] -= k->machines[atoi(group + 1)] > 0;
    return 0;
}

static const struct fn_cplane_ops cplane_ops = { .list = list,
                                                 .provision = provision,
                                                 .remove = remove_one };

/* ---- the manager ----------------------------------------------------------------------------- */

/* Each runner answers, a moment later. */
struct answer {
    struct env_task task;
    struct pool_kit *kit;
    uint64_t ticket;
};

static void on_answer(struct env_task *t)
{
    struct answer *a = container_of(t, struct answer, task);

    npm_manager_reported(a->kit->m, a->ticket, &(struct npm_event){ .kind = NPM_REPORTED });
    free(a);
}

static int ask(void *ud, const char *address, uint64_t ticket)
{
    struct pool_kit *k = ud;
    struct answer *a = calloc(1, sizeof(*a));

    (void)address;
    must(a != NULL, "no memory");
    *a = (struct answer){ .kit = k, .ticket = ticket };
    a->task.cb = on_answer;
    env_defer(&k->clock->env, &a->task);
    return 0;
}

static void published(void *ud, const char *group)
{
    npm_service_published(((struct pool_kit *)ud)->s, group);
}

static void wishes_changed(void *ud)
{
    (void)ud; /* nobody keeps them */
}

void kit_begin(struct pool_kit *k, uint32_t groups_n)
{
    struct npm_deps d = { .cplane = &k->cplane,
                          .ask = ask,
                          .published = published,
                          .wishes_changed = wishes_changed,
                          .ud = k,
                          .options = NPM_OPTIONS_INIT,
                          .settings = { .groups = { name_list, groups_n },
                                        .runners_max = KIT_GROUPS_MAX * KIT_MACHINES_MAX,
                                        .cplane_timeout_ns = ENV_S } };
    struct fn_error e = ERR_INIT;

    k->clock = fake_env_create();
    fake_plugin_init(&k->cplane, "control-plane", &cplane_ops, k);
    k->grows = false;
    k->groups_n = groups_n;
    for (uint32_t i = 0; i < groups_n; i++) {
        k->machines[i] = 1;
    }
    d.env = &k->clock->env;
    d.options.settle_ns = ENV_S;
    must(npm_manager_create(&d, &k->m, &e) == 0, e.msg);
    must(npm_service_create(&k->clock->env, k->m, &k->s, &e) == 0, e.msg);
    k->table = *npm_service_table(k->s);
}

static void on_stopped(void *ud)
{
    *(bool *)ud = true;
}

void kit_end(struct pool_kit *k)
{
    bool stopped = false;

    must(kit_is_idle(k), "a call is left");
    npm_manager_stop(k->m, on_stopped, &stopped);
    fake_env_work_all(k->clock);
    fake_env_settle(k->clock);
    must(stopped, "the manager does not stop");
    npm_service_destroy(k->s);
    npm_manager_destroy(k->m);
    fake_env_destroy(k->clock);
}

void kit_pass(struct pool_kit *k, uint32_t seconds)
{
    loop_enter(k->loop);
    for (uint32_t i = 0; i < seconds; i++) {
        k->machines[0] += k->grows && k->machines[0] < KIT_MACHINES_MAX;
        fake_env_work_all(k->clock);
        fake_env_advance(k->clock, ENV_S);
    }
    fake_env_work_all(k->clock);
    loop_leave(k->loop);
}

const struct npm_group *kit_group(const struct pool_kit *k, uint32_t i)
{
    return npm_manager_group(k->m, names[i]);
}

/* ---- the wire -------------------------------------------------------------------------------- */

static const struct engage_server_cb no_runner = { 0 };

static void on_look(struct env_timer *t)
{
    struct pool_kit *k = container_of(t, struct pool_kit, look);
    struct env *env = loop_env(k->loop);

    if (k->turns == 0 || k->done(k->done_ud)) {
        loop_stop(k->loop);
        return;
    }
    k->turns--;
    env_timer_set(env, t, env_now_ns(env) + 1);
}

bool kit_run(struct pool_kit *k, uint32_t turns, bool (*done)(void *ud), void *ud)
{
    k->turns = turns;
    k->done = done;
    k->done_ud = ud;
    k->look.cb = on_look;
    env_timer_set(loop_env(k->loop), &k->look, 0);
    loop_run(k->loop);
    return k->turns > 0;
}

bool kit_is_idle(const struct pool_kit *k)
{
    return LIST_EMPTY(&k->server->calls);
}

void kit_open(struct pool_kit *k)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error e = ERR_INIT;
    char address[sizeof(k->path) + 8];

    log_set_level(0); /* each machine would be told of */
    for (uint32_t i = 0; i < KIT_GROUPS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "g%u", i);
        name_list[i] = names[i];
    }
    snprintf(k->path, sizeof(k->path), "/tmp/fnd-test-pool-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", k->path);
    config.client_silence_ns = 0;
    config.answer_ns = config.first_message_ns = config.ack_ns = 600 * ENV_S;
    must(loop_create(NULL, &k->loop, &e) == 0, e.msg);
    must(rpc_create(k->loop, &config, &k->rpc, &e) == 0, e.msg);
    must(rpc_server_open(k->rpc, address, &no_runner, NULL, &k->server, &e) == 0, e.msg);
    rpc_server_serve(k->server, &k->table);
    loop_enter(k->loop);
    must(rpc_channel_open(k->rpc, address, NULL, NULL, &k->channel, &e) == 0, e.msg);
    loop_leave(k->loop);
}

void kit_close(struct pool_kit *k)
{
    loop_enter(k->loop);
    rpc_channel_close(k->channel);
    loop_leave(k->loop);
    rpc_destroy(k->rpc);
    loop_destroy(k->loop);
    unlink(k->path);
}
