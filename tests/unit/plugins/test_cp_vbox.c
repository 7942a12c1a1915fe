/* Names, recorded output of VBoxManage, good and damaged, addresses of guests, and how a tool's
 * failure is told. */
#include <vbox.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fn_error e;

static void forget(void)
{
    memset(&e, 0, sizeof(e));
}

/* ---- names ----------------------------------------------------------------------------------- */

START_TEST(a_request_names_its_machines)
{
    char name[VBOX_NAME_MAX + 1];

    ck_assert_int_eq(vbox_name("fnd-", "blue", 0xabcdef0123456789u, 12, name, &e), 0);
    ck_assert_str_eq(name, "fnd-blue-abcdef0123456789-12");
}
END_TEST

static const char *const bad_groups[] = {
    "", "a b", "a/b", "../x", "a;b", "a\"b", "caf\xc3\xa9",
    "1234567890123456789012345678901234567890123456789012345678901234",
};

START_TEST(a_group_that_no_name_can_hold_is_refused)
{
    char name[VBOX_NAME_MAX + 1];

    forget();
    ck_assert_int_eq(vbox_name("fnd-", bad_groups[_i], 1, 0, name, &e), FN_E_INVALID);
    ck_assert_msg(strstr(e.msg, "expected 1 to 63 letters") != NULL, "%s", e.msg);
}
END_TEST

static const struct {
    const char *prefix, *group;
    int vagrant;
    const char *name;
    const char *id; /* NULL = not ours */
} names[] = {
    { "fnd-", "default", 0, "fnd-default-7-0", "fnd-default-7-0" },
    { "fnd-", "default", 0, "fnd-default-abcdef0123456789-19", "fnd-default-abcdef0123456789-19" },
    { "fnd-", "a", 0, "fnd-a-1f-2-3", NULL },
    { "fnd-", "a-1f", 0, "fnd-a-1f-2-3", "fnd-a-1f-2-3" },
    { "fnd-", "default", 0, "fnd-default", NULL },
    { "fnd-", "default", 0, "fnd-default-", NULL },
    { "fnd-", "default", 0, "fnd-default-7", NULL },
    { "fnd-", "default", 0, "fnd-default--0", NULL },
    { "fnd-", "default", 0, "fnd-default-7-", NULL },
    { "fnd-", "default", 0, "fnd-default-7-x", NULL },
    { "fnd-", "default", 0, "fnd-default-G-0", NULL },
    { "fnd-", "default", 0, "fnd-default-7-0 copy", NULL },
    { "fnd-", "default", 0, "fnd-default_7-0", NULL },
    { "fnd-", "default", 0, "end-default-7-0", NULL },
    { "fnd-", "default", 0, "xfnd-default-7-0", NULL },
    { "fnd-", "default", 0, "fnd-defaulx-7-0", NULL },
    { "fnd-", "default", 0, "", NULL },
    { "fnd-", "default", 0, "7-0", NULL },
    { "fnd-", "default", 0, "fnd-default-7-0_default_1542182400123_12345", NULL },
    { "fnd-", "default", 1, "fnd-default-7-0_default_1542182400123_12345", "fnd-default-7-0" },
    { "fnd-", "a_b", 1, "fnd-a_b-7-0_runner_1542182400123_12345", "fnd-a_b-7-0" },
    { "fnd-", "default", 1, "fnd-default-7-0", NULL },
    { "fnd-", "default", 1, "fnd-default-7-0_1542182400123_12345", NULL },
    { "fnd-", "default", 1, "fnd-default-7-0_default_x_12345", NULL },
    { "fnd-", "default", 1, "_1_2", NULL },
};

START_TEST(only_names_of_the_group_are_ours)
{
    char id[VBOX_NAME_MAX + 1] = "";
    int is = vbox_id_of(names[_i].prefix, names[_i].group, names[_i].vagrant, names[_i].name,
                        strlen(names[_i].name), id);

    ck_assert_int_eq(is, names[_i].id != NULL);
    ck_assert_str_eq(id, names[_i].id ? names[_i].id : "");
}
END_TEST

/* ---- list vms -------------------------------------------------------------------------------- */

static const char recorded[] =
    "\"ubuntu-18.04 base\" {7d8a8f0a-3c0f-4d0e-8b5c-0d4c9b1f4a55}\n"
    "\"<inaccessible>\" {0b5ac5e3-7b0e-4a2e-9a60-35b0f1b0a3a1}\n"
    "\"Windows \"10\" {test}\" {A3C27F8A-6F4C-4A57-B68E-6A0F6E2C3B11}\r\n"
    "\n"
    "\"fnd-default-7-0\" {c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n";

START_TEST(a_recorded_list_is_read)
{
    static const char *const expected[] = { "ubuntu-18.04 base", "<inaccessible>",
                                            "Windows \"10\" {test}", "fnd-default-7-0" };
    const char *at = recorded;
    struct vbox_vm vm;

    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(vbox_next(&at, &vm, &e), 1);
        ck_assert_uint_eq(vm.name_len, strlen(expected[i]));
        ck_assert_mem_eq(vm.name, expected[i], vm.name_len);
    }
    ck_assert_str_eq(vm.uuid, "c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111");
    ck_assert_int_eq(vbox_next(&at, &vm, &e), 0);
    ck_assert_int_eq(vbox_has(recorded, "A3C27F8A-6F4C-4A57-B68E-6A0F6E2C3B11"), 1);
    ck_assert_int_eq(vbox_has(recorded, "c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a112"), 0);
    ck_assert_int_eq(vbox_has("", "c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111"), 0);
}
END_TEST

static const char *const bad_lists[] = {
    "WARNING: The character device /dev/vboxdrv does not exist.\n",
    "\"half a name",
    "\"a\" {c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a11}\n",
    "\"a\" {c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a1111}\n",
    "\"a\" {g1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n",
    "\"a\"  c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n",
    "a {c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n",
    "{c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n",
    "\" {c1f6f1b1-93f0-4f2a-8c63-0a7a56c4a111}\n",
    "\001\377{{\"\" %s",
    "}",
};

START_TEST(what_is_no_list_is_told)
{
    const char *at = bad_lists[_i];
    struct vbox_vm vm;

    forget();
    ck_assert_int_eq(vbox_next(&at, &vm, &e), FN_E_DATA_LOSS);
    ck_assert_msg(strncmp(e.msg, "VBoxManage list: got \"", 22) == 0, "%s", e.msg);
    ck_assert_msg(strstr(e.msg, "expected \"name\" {uuid} in each line") != NULL, "%s", e.msg);
    for (const char *c = e.msg; *c; c++) {
        ck_assert_msg(*c >= ' ' && *c <= '~', "%s", e.msg);
    }
}
END_TEST

/* ---- addresses ------------------------------------------------------------------------------- */

static const struct {
    const char *out;
    int result;
    const char *address;
} addresses[] = {
    { "Value: 192.168.56.101\n", 1, "192.168.56.101:9190" },
    { "Value: 10.0.2.15\r\n", 1, "10.0.2.15:9190" },
    { "Value: 255.255.255.254", 1, "255.255.255.254:9190" },
    { "No value set!\n", 0, "" },
    { "Value: 0.0.0.0\n", 0, "" },
    { "", FN_E_DATA_LOSS, "" },
    { "Value:\n", FN_E_DATA_LOSS, "" },
    { "Value: \n", FN_E_DATA_LOSS, "" },
    { "Value: 1.2.3\n", FN_E_DATA_LOSS, "" },
    { "Value: 1.2.3.\n", FN_E_DATA_LOSS, "" },
    { "Value: 1.2.3.4.5\n", FN_E_DATA_LOSS, "" },
    { "Value: 1.2.3.256\n", FN_E_DATA_LOSS, "" },
    { "Value: 1.2.3.-4\n", FN_E_DATA_LOSS, "" },
    { "Value: 1..3.4\n", FN_E_DATA_LOSS, "" },
    { "Value: 0000001.2.3.4\n", FN_E_DATA_LOSS, "" },
    { "Value: fe80::1\n", FN_E_DATA_LOSS, "" },
    { "192.168.56.101\n", FN_E_DATA_LOSS, "" },
    { "\377\376\n", FN_E_DATA_LOSS, "" },
};

START_TEST(an_answer_becomes_an_address)
{
    char address[32] = "";

    forget();
    ck_assert_int_eq(vbox_address(addresses[_i].out, 9190, address, sizeof(address), &e),
                     addresses[_i].result);
    ck_assert_str_eq(address, addresses[_i].address);
    ck_assert_int_eq(e.msg[0] != '\0', addresses[_i].result < 0);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static const struct {
    const char *command;
    int32_t code;
    const char *out, *err;
    const char *text; /* NULL = it went well */
} ends[] = {
    { "list", 0, "", "", NULL },
    { "clonevm", 0, "", "0%...10%...100%\n", NULL },
    { "clonevm", 1, "",
      "0%...\nVBoxManage: error: Could not find a registered machine named 'x'\n"
      "VBoxManage: error: Details: code VBOX_E_OBJECT_NOT_FOUND (0x80bb0001)\n",
      "VBoxManage clonevm: ended with 1: Could not find a registered machine named 'x'" },
    { "list", 0, "", "VBoxManage: error: Failed to create the VirtualBox object!\n",
      "VBoxManage list: ended with 0: Failed to create the VirtualBox object!" },
    { "startvm", 1, "VM \"a\" has been successfully started.\n", "", NULL },
    { "clonevm", 1, "VM \"a\" has been successfully started.\n", "",
      "VBoxManage clonevm: ended with 1" },
    { "startvm", -9, "", "", "VBoxManage startvm: ended with -9" },
    { "up", 0, "", "==> default: error: of a provisioner that went on\n", NULL },
    { "list", 127, "", "VBoxManage: No such\tfile\n", "VBoxManage list: ended with 127: "
                                                      "VBoxManage: No such?file" },
};

START_TEST(how_a_tool_ended)
{
    const char *const argv[] = { "/opt/bin/VBoxManage", ends[_i].command, NULL };
    char out[128], err[256], text[FN_ERROR_TEXT_MAX];
    struct fn_exec_result result = { sizeof(result), ends[_i].code, out, err };
    const char *said;

    strcpy(out, ends[_i].out);
    strcpy(err, ends[_i].err);
    said = vbox_failure(argv, &result, text, sizeof(text));
    ck_assert_int_eq(said != NULL, ends[_i].text != NULL);
    if (said) {
        ck_assert_str_eq(said, ends[_i].text);
    }
}
END_TEST

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

int main(void)
{
    Suite *suite = suite_create("cp_vbox");
    TCase *tc = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_test(tc, a_request_names_its_machines);
    tcase_add_loop_test(tc, a_group_that_no_name_can_hold_is_refused, 0, LEN(bad_groups));
    tcase_add_loop_test(tc, only_names_of_the_group_are_ours, 0, LEN(names));
    tcase_add_test(tc, a_recorded_list_is_read);
    tcase_add_loop_test(tc, what_is_no_list_is_told, 0, LEN(bad_lists));
    tcase_add_loop_test(tc, an_answer_becomes_an_address, 0, LEN(addresses));
    tcase_add_loop_test(tc, how_a_tool_ended, 0, LEN(ends));
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
