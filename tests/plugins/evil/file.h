/* The end of an evil plugin: its manifest and its entry.
 *
 *   #define EVIL_NAME "e07"        name of the plugin and of its factories, required
 *   #define EVIL_FACTORIES a, b    pointers, required
 *   #define EVIL_NO_ENTRY          only the note, no symbol
 *   #define EVIL_OWN_ENTRY         the same, the file has its own
 */
static const struct fn_factory *const evil_factories[] = { EVIL_FACTORIES, NULL };

__attribute__((unused)) static const struct fn_manifest evil_manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = EVIL_NAME,
    .version = "6.6.6",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = evil_factories,
};

#if defined(EVIL_NO_ENTRY) || defined(EVIL_OWN_ENTRY)
__attribute__((section(".note.fnd"), used, aligned(4))) static const struct fn_note evil_note = {
    4, 8, FN_NOTE_TYPE, FN_NOTE_OWNER, FN_ABI_MAJOR, FN_ABI_MINOR, 0, 0
};
#else
FN_PLUGIN_DEFINE(evil, evil_manifest)
#endif
