/* Sizes and places that plugins built today rely on. A line here changes only with the major
 * version; what a minor version appends gets lines of its own. 64-bit. */
#ifndef TEST_ABI_LAYOUT_H
#define TEST_ABI_LAYOUT_H

#include <fn/cplane.h>
#include <fn/driver.h>
#include <fn/listener.h>
#include <fn/override.h>
#include <fn/placer.h>
#include <fn/pool.h>
#include <fn/predictor.h>
#include <fn/rpc.h>

#ifdef __cplusplus
#define FIXED(what, value) static_assert((what) == (value), #what)
#else
#define FIXED(what, value) _Static_assert((what) == (value), #what)
#endif

FIXED(sizeof(struct fn_answer), 64);
FIXED(offsetof(struct fn_answer, verdict), 4);
FIXED(offsetof(struct fn_answer, index), 8);
FIXED(offsetof(struct fn_answer, wake_mask), 12);
FIXED(offsetof(struct fn_answer, wait_ns), 16);
FIXED(offsetof(struct fn_answer, code), 24);
FIXED(offsetof(struct fn_answer, reserved0), 28);
FIXED(offsetof(struct fn_answer, note), 32);

FIXED(sizeof(struct fn_ask), 80);
FIXED(offsetof(struct fn_ask, why), 4);
FIXED(offsetof(struct fn_ask, now_ns), 8);
FIXED(offsetof(struct fn_ask, deadline_ns), 16);
FIXED(offsetof(struct fn_ask, call), 24);
FIXED(offsetof(struct fn_ask, snap), 32);
FIXED(offsetof(struct fn_ask, inflight), 40);
FIXED(offsetof(struct fn_ask, session), 48);
FIXED(offsetof(struct fn_ask, attempts), 56);
FIXED(offsetof(struct fn_ask, last_index), 60);
FIXED(offsetof(struct fn_ask, last_code), 64);
FIXED(offsetof(struct fn_ask, round), 68);
FIXED(offsetof(struct fn_ask, inflight_total), 72);

FIXED(sizeof(struct fn_call), 64);
FIXED(offsetof(struct fn_call, id), 8);
FIXED(offsetof(struct fn_call, fn_id), 16);
FIXED(offsetof(struct fn_call, app_id), 24);
FIXED(offsetof(struct fn_call, lb_group), 32);
FIXED(offsetof(struct fn_call, mem_mb), 40);
FIXED(offsetof(struct fn_call, deadline_ns), 48);
FIXED(offsetof(struct fn_call, kind), 56);
FIXED(offsetof(struct fn_call, reserved0), 60);

FIXED(sizeof(struct fn_call_end), 40);
FIXED(offsetof(struct fn_call_end, code), 4);
FIXED(offsetof(struct fn_call_end, http_status), 8);
FIXED(offsetof(struct fn_call_end, blame), 12);
FIXED(offsetof(struct fn_call_end, started_ns), 16);
FIXED(offsetof(struct fn_call_end, ended_ns), 24);
FIXED(offsetof(struct fn_call_end, outcome), 32);

FIXED(sizeof(struct fn_clock_if), 24);
FIXED(offsetof(struct fn_clock_if, now_ns), 8);
FIXED(offsetof(struct fn_clock_if, wall_ns), 16);

FIXED(sizeof(struct fn_cplane_ops), 32);
FIXED(offsetof(struct fn_cplane_ops, list), 8);
FIXED(offsetof(struct fn_cplane_ops, provision), 16);
FIXED(offsetof(struct fn_cplane_ops, remove), 24);

FIXED(sizeof(struct fn_demand), 32);
FIXED(offsetof(struct fn_demand, reserved0), 4);
FIXED(offsetof(struct fn_demand, mem_mb), 8);
FIXED(offsetof(struct fn_demand, waiting), 16);
FIXED(offsetof(struct fn_demand, running), 24);

FIXED(sizeof(struct fn_driver_if), 40);
FIXED(offsetof(struct fn_driver_if, exited), 8);
FIXED(offsetof(struct fn_driver_if, output), 16);
FIXED(offsetof(struct fn_driver_if, engine), 24);
FIXED(offsetof(struct fn_driver_if, inner), 32);

FIXED(sizeof(struct fn_driver_ops), 96);
FIXED(offsetof(struct fn_driver_ops, flags), 8);
FIXED(offsetof(struct fn_driver_ops, reserved0), 12);
FIXED(offsetof(struct fn_driver_ops, slot_key), 16);
FIXED(offsetof(struct fn_driver_ops, prepare_image), 24);
FIXED(offsetof(struct fn_driver_ops, create), 32);
FIXED(offsetof(struct fn_driver_ops, start), 40);
FIXED(offsetof(struct fn_driver_ops, freeze), 48);
FIXED(offsetof(struct fn_driver_ops, thaw), 56);
FIXED(offsetof(struct fn_driver_ops, close), 64);
FIXED(offsetof(struct fn_driver_ops, sweep), 72);
FIXED(offsetof(struct fn_driver_ops, probe), 80);
FIXED(offsetof(struct fn_driver_ops, uid), 88);

FIXED(sizeof(struct fn_edit_if), 80);
FIXED(offsetof(struct fn_edit_if, text), 8);
FIXED(offsetof(struct fn_edit_if, header), 16);
FIXED(offsetof(struct fn_edit_if, config), 24);
FIXED(offsetof(struct fn_edit_if, annotation), 32);
FIXED(offsetof(struct fn_edit_if, extension), 40);
FIXED(offsetof(struct fn_edit_if, u64), 48);
FIXED(offsetof(struct fn_edit_if, set_u64), 56);
FIXED(offsetof(struct fn_edit_if, set_config), 64);
FIXED(offsetof(struct fn_edit_if, set_extension), 72);

FIXED(sizeof(struct fn_error), 248);
FIXED(offsetof(struct fn_error, code), 4);
FIXED(offsetof(struct fn_error, http_status), 8);
FIXED(offsetof(struct fn_error, blame), 12);
FIXED(offsetof(struct fn_error, flags), 16);
FIXED(offsetof(struct fn_error, retry_after_ns), 24);
FIXED(offsetof(struct fn_error, msg), 32);

FIXED(sizeof(struct fn_exec_if), 24);
FIXED(offsetof(struct fn_exec_if, run), 8);
FIXED(offsetof(struct fn_exec_if, free_result), 16);

FIXED(sizeof(struct fn_exec_request), 48);
FIXED(offsetof(struct fn_exec_request, timeout_ms), 4);
FIXED(offsetof(struct fn_exec_request, argv), 8);
FIXED(offsetof(struct fn_exec_request, env), 16);
FIXED(offsetof(struct fn_exec_request, cwd), 24);
FIXED(offsetof(struct fn_exec_request, stdin_text), 32);
FIXED(offsetof(struct fn_exec_request, output_max), 40);

FIXED(sizeof(struct fn_exec_result), 24);
FIXED(offsetof(struct fn_exec_result, exit_code), 4);
FIXED(offsetof(struct fn_exec_result, out), 8);
FIXED(offsetof(struct fn_exec_result, err), 16);

FIXED(sizeof(struct fn_exit), 16);
FIXED(offsetof(struct fn_exit, reason), 4);
FIXED(offsetof(struct fn_exit, status), 8);
FIXED(offsetof(struct fn_exit, reserved0), 12);

FIXED(sizeof(struct fn_factory), 96);
FIXED(offsetof(struct fn_factory, kind), 8);
FIXED(offsetof(struct fn_factory, name), 16);
FIXED(offsetof(struct fn_factory, summary), 24);
FIXED(offsetof(struct fn_factory, kind_major), 32);
FIXED(offsetof(struct fn_factory, kind_minor), 34);
FIXED(offsetof(struct fn_factory, conf_size), 36);
FIXED(offsetof(struct fn_factory, caps_offered), 40);
FIXED(offsetof(struct fn_factory, caps_required), 48);
FIXED(offsetof(struct fn_factory, needs), 56);
FIXED(offsetof(struct fn_factory, opts), 64);
FIXED(offsetof(struct fn_factory, ops), 72);
FIXED(offsetof(struct fn_factory, create), 80);
FIXED(offsetof(struct fn_factory, destroy), 88);

FIXED(sizeof(struct fn_hdr), 8);
FIXED(offsetof(struct fn_hdr, magic), 4);

FIXED(sizeof(struct fn_host), 64);
FIXED(offsetof(struct fn_host, priv), 8);
FIXED(offsetof(struct fn_host, clock), 16);
FIXED(offsetof(struct fn_host, timer), 24);
FIXED(offsetof(struct fn_host, log), 32);
FIXED(offsetof(struct fn_host, metric), 40);
FIXED(offsetof(struct fn_host, rng), 48);
FIXED(offsetof(struct fn_host, get), 56);

FIXED(sizeof(struct fn_http_answer), 24);
FIXED(offsetof(struct fn_http_answer, status), 4);
FIXED(offsetof(struct fn_http_answer, body), 8);
FIXED(offsetof(struct fn_http_answer, body_len), 16);

FIXED(sizeof(struct fn_http_if), 40);
FIXED(offsetof(struct fn_http_if, exchange), 8);
FIXED(offsetof(struct fn_http_if, free_answer), 16);
FIXED(offsetof(struct fn_http_if, stream_open), 24);
FIXED(offsetof(struct fn_http_if, stream_close), 32);

FIXED(sizeof(struct fn_http_request), 64);
FIXED(offsetof(struct fn_http_request, timeout_ms), 4);
FIXED(offsetof(struct fn_http_request, method), 8);
FIXED(offsetof(struct fn_http_request, unix_path), 16);
FIXED(offsetof(struct fn_http_request, url), 24);
FIXED(offsetof(struct fn_http_request, headers), 32);
FIXED(offsetof(struct fn_http_request, body), 40);
FIXED(offsetof(struct fn_http_request, body_len), 48);
FIXED(offsetof(struct fn_http_request, answer_max), 56);

FIXED(sizeof(struct fn_http_stream_cb), 24);
FIXED(offsetof(struct fn_http_stream_cb, data), 8);
FIXED(offsetof(struct fn_http_stream_cb, end), 16);

FIXED(sizeof(struct fn_kv), 16);
FIXED(offsetof(struct fn_kv, value), 8);

FIXED(sizeof(struct fn_listener_ops), 24);
FIXED(offsetof(struct fn_listener_ops, before), 8);
FIXED(offsetof(struct fn_listener_ops, after), 16);

FIXED(sizeof(struct fn_load), 40);
FIXED(offsetof(struct fn_load, runners_ready), 4);
FIXED(offsetof(struct fn_load, now_ns), 8);
FIXED(offsetof(struct fn_load, wanted_mb), 16);
FIXED(offsetof(struct fn_load, waiting), 24);
FIXED(offsetof(struct fn_load, capacity_mb), 32);

FIXED(sizeof(struct fn_log_if), 24);
FIXED(offsetof(struct fn_log_if, level), 8);
FIXED(offsetof(struct fn_log_if, write), 16);

FIXED(sizeof(struct fn_machine), 32);
FIXED(offsetof(struct fn_machine, state), 4);
FIXED(offsetof(struct fn_machine, id), 8);
FIXED(offsetof(struct fn_machine, address), 16);
FIXED(offsetof(struct fn_machine, capacity_mb), 24);

FIXED(sizeof(struct fn_machine_sink), 24);
FIXED(offsetof(struct fn_machine_sink, add), 8);
FIXED(offsetof(struct fn_machine_sink, ud), 16);

FIXED(sizeof(struct fn_manifest), 56);
FIXED(offsetof(struct fn_manifest, abi_major), 8);
FIXED(offsetof(struct fn_manifest, abi_minor), 10);
FIXED(offsetof(struct fn_manifest, host_minor_min), 12);
FIXED(offsetof(struct fn_manifest, flags), 14);
FIXED(offsetof(struct fn_manifest, name), 16);
FIXED(offsetof(struct fn_manifest, version), 24);
FIXED(offsetof(struct fn_manifest, license), 32);
FIXED(offsetof(struct fn_manifest, build_tag), 40);
FIXED(offsetof(struct fn_manifest, factories), 48);

FIXED(sizeof(struct fn_metric_if), 24);
FIXED(offsetof(struct fn_metric_if, declare), 8);
FIXED(offsetof(struct fn_metric_if, add), 16);

FIXED(sizeof(struct fn_need), 16);
FIXED(offsetof(struct fn_need, major), 8);
FIXED(offsetof(struct fn_need, minor_min), 10);
FIXED(offsetof(struct fn_need, flags), 12);

FIXED(sizeof(struct fn_note), 24);
FIXED(offsetof(struct fn_note, descsz), 4);
FIXED(offsetof(struct fn_note, type), 8);
FIXED(offsetof(struct fn_note, name), 12);
FIXED(offsetof(struct fn_note, abi_major), 16);
FIXED(offsetof(struct fn_note, abi_minor), 18);
FIXED(offsetof(struct fn_note, host_minor_min), 20);
FIXED(offsetof(struct fn_note, reserved0), 22);

FIXED(sizeof(struct fn_op_if), 32);
FIXED(offsetof(struct fn_op_if, deadline_ns), 8);
FIXED(offsetof(struct fn_op_if, cancelled), 16);
FIXED(offsetof(struct fn_op_if, sleep_until), 24);

FIXED(sizeof(struct fn_opt), 64);
FIXED(offsetof(struct fn_opt, doc), 8);
FIXED(offsetof(struct fn_opt, dflt), 16);
FIXED(offsetof(struct fn_opt, choices), 24);
FIXED(offsetof(struct fn_opt, min), 32);
FIXED(offsetof(struct fn_opt, max), 40);
FIXED(offsetof(struct fn_opt, type), 48);
FIXED(offsetof(struct fn_opt, offset), 52);
FIXED(offsetof(struct fn_opt, flags), 56);
FIXED(offsetof(struct fn_opt, reserved0), 60);

FIXED(sizeof(struct fn_override_ops), 16);
FIXED(offsetof(struct fn_override_ops, apply), 8);

FIXED(sizeof(struct fn_placed), 48);
FIXED(offsetof(struct fn_placed, outcome), 4);
FIXED(offsetof(struct fn_placed, runner_id), 8);
FIXED(offsetof(struct fn_placed, latency_ns), 16);
FIXED(offsetof(struct fn_placed, call), 24);
FIXED(offsetof(struct fn_placed, snap), 32);
FIXED(offsetof(struct fn_placed, index), 40);
FIXED(offsetof(struct fn_placed, reserved0), 44);

FIXED(sizeof(struct fn_placer_if), 16);
FIXED(offsetof(struct fn_placer_if, inner), 8);

FIXED(sizeof(struct fn_placer_ops), 48);
FIXED(offsetof(struct fn_placer_ops, session_size), 8);
FIXED(offsetof(struct fn_placer_ops, flags), 12);
FIXED(offsetof(struct fn_placer_ops, decide), 16);
FIXED(offsetof(struct fn_placer_ops, observe), 24);
FIXED(offsetof(struct fn_placer_ops, index_build), 32);
FIXED(offsetof(struct fn_placer_ops, index_free), 40);

FIXED(sizeof(struct fn_pool_ops), 40);
FIXED(offsetof(struct fn_pool_ops, start), 8);
FIXED(offsetof(struct fn_pool_ops, route), 16);
FIXED(offsetof(struct fn_pool_ops, want), 24);
FIXED(offsetof(struct fn_pool_ops, stop), 32);

FIXED(sizeof(struct fn_predictor_ops), 24);
FIXED(offsetof(struct fn_predictor_ops, state_size), 8);
FIXED(offsetof(struct fn_predictor_ops, reserved0), 12);
FIXED(offsetof(struct fn_predictor_ops, predict), 16);

FIXED(sizeof(struct fn_proc_cb), 24);
FIXED(offsetof(struct fn_proc_cb, output), 8);
FIXED(offsetof(struct fn_proc_cb, exited), 16);

FIXED(sizeof(struct fn_proc_if), 48);
FIXED(offsetof(struct fn_proc_if, isolation), 8);
FIXED(offsetof(struct fn_proc_if, spawn), 16);
FIXED(offsetof(struct fn_proc_if, kill), 24);
FIXED(offsetof(struct fn_proc_if, freeze), 32);
FIXED(offsetof(struct fn_proc_if, sweep), 40);

FIXED(sizeof(struct fn_proc_spec), 104);
FIXED(offsetof(struct fn_proc_spec, flags), 4);
FIXED(offsetof(struct fn_proc_spec, argv), 8);
FIXED(offsetof(struct fn_proc_spec, env), 16);
FIXED(offsetof(struct fn_proc_spec, cwd), 24);
FIXED(offsetof(struct fn_proc_spec, bind_from), 32);
FIXED(offsetof(struct fn_proc_spec, bind_to), 40);
FIXED(offsetof(struct fn_proc_spec, uid), 48);
FIXED(offsetof(struct fn_proc_spec, gid), 52);
FIXED(offsetof(struct fn_proc_spec, mem_bytes), 56);
FIXED(offsetof(struct fn_proc_spec, cpu_milli), 64);
FIXED(offsetof(struct fn_proc_spec, tmp_bytes), 72);
FIXED(offsetof(struct fn_proc_spec, pids_max), 80);
FIXED(offsetof(struct fn_proc_spec, nofile_max), 88);
FIXED(offsetof(struct fn_proc_spec, cgroup_name), 96);

FIXED(sizeof(struct fn_rng_if), 16);
FIXED(offsetof(struct fn_rng_if, u64), 8);

FIXED(sizeof(struct fn_runner), 48);
FIXED(offsetof(struct fn_runner, address), 8);
FIXED(offsetof(struct fn_runner, tls_name), 16);
FIXED(offsetof(struct fn_runner, capacity_mb), 24);
FIXED(offsetof(struct fn_runner, weight), 32);
FIXED(offsetof(struct fn_runner, flags), 36);
FIXED(offsetof(struct fn_runner, since_ns), 40);

FIXED(sizeof(struct fn_snap_if), 48);
FIXED(offsetof(struct fn_snap_if, begin), 8);
FIXED(offsetof(struct fn_snap_if, add), 16);
FIXED(offsetof(struct fn_snap_if, publish), 24);
FIXED(offsetof(struct fn_snap_if, discard), 32);
FIXED(offsetof(struct fn_snap_if, fail), 40);

FIXED(sizeof(struct fn_snapshot), 64);
FIXED(offsetof(struct fn_snapshot, epoch), 8);
FIXED(offsetof(struct fn_snapshot, made_ns), 16);
FIXED(offsetof(struct fn_snapshot, n), 24);
FIXED(offsetof(struct fn_snapshot, stride), 28);
FIXED(offsetof(struct fn_snapshot, flags), 32);
FIXED(offsetof(struct fn_snapshot, err_code), 36);
FIXED(offsetof(struct fn_snapshot, group), 40);
FIXED(offsetof(struct fn_snapshot, runners), 48);
FIXED(offsetof(struct fn_snapshot, index), 56);

FIXED(sizeof(struct fn_strlist), 16);
FIXED(offsetof(struct fn_strlist, n), 8);

FIXED(sizeof(struct fn_task), 224);
FIXED(offsetof(struct fn_task, id), 8);
FIXED(offsetof(struct fn_task, owner), 16);
FIXED(offsetof(struct fn_task, instance), 24);
FIXED(offsetof(struct fn_task, fn_id), 32);
FIXED(offsetof(struct fn_task, app_id), 40);
FIXED(offsetof(struct fn_task, image), 48);
FIXED(offsetof(struct fn_task, env), 56);
FIXED(offsetof(struct fn_task, extensions), 64);
FIXED(offsetof(struct fn_task, n_env), 72);
FIXED(offsetof(struct fn_task, n_extensions), 76);
FIXED(offsetof(struct fn_task, registry_token), 80);
FIXED(offsetof(struct fn_task, syslog_url), 88);
FIXED(offsetof(struct fn_task, iofs_dir), 96);
FIXED(offsetof(struct fn_task, iofs_engine_dir), 104);
FIXED(offsetof(struct fn_task, iofs_inside), 112);
FIXED(offsetof(struct fn_task, hostname), 120);
FIXED(offsetof(struct fn_task, mem_bytes), 128);
FIXED(offsetof(struct fn_task, cpu_milli), 136);
FIXED(offsetof(struct fn_task, tmpfs_bytes), 144);
FIXED(offsetof(struct fn_task, tmpfs_inodes), 152);
FIXED(offsetof(struct fn_task, fs_bytes), 160);
FIXED(offsetof(struct fn_task, pids_max), 168);
FIXED(offsetof(struct fn_task, nofile_max), 176);
FIXED(offsetof(struct fn_task, memlock_max), 184);
FIXED(offsetof(struct fn_task, sigpending_max), 192);
FIXED(offsetof(struct fn_task, msgqueue_max), 200);
FIXED(offsetof(struct fn_task, flags), 208);
FIXED(offsetof(struct fn_task, reserved0), 212);
FIXED(offsetof(struct fn_task, handle), 216);

FIXED(sizeof(struct fn_timer_if), 24);
FIXED(offsetof(struct fn_timer_if, arm), 8);
FIXED(offsetof(struct fn_timer_if, cancel), 16);

FIXED(sizeof(struct fn_wake_if), 16);
FIXED(offsetof(struct fn_wake_if, wake), 8);

FIXED(sizeof(struct fn_rpc_cb), 24);
FIXED(offsetof(struct fn_rpc_cb, message), 8);
FIXED(offsetof(struct fn_rpc_cb, end), 16);

FIXED(sizeof(struct fn_rpc_call), 40);
FIXED(offsetof(struct fn_rpc_call, timeout_ms), 4);
FIXED(offsetof(struct fn_rpc_call, channel), 8);
FIXED(offsetof(struct fn_rpc_call, method), 16);
FIXED(offsetof(struct fn_rpc_call, message), 24);
FIXED(offsetof(struct fn_rpc_call, len), 32);

FIXED(sizeof(struct fn_rpc_if), 40);
FIXED(offsetof(struct fn_rpc_if, open), 8);
FIXED(offsetof(struct fn_rpc_if, close), 16);
FIXED(offsetof(struct fn_rpc_if, call), 24);
FIXED(offsetof(struct fn_rpc_if, cancel), 32);

#endif
