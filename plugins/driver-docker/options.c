/* The keys of fn.yaml. */
#include "docker.h"

/* For create_rules.h. */
#define ALLOW(name, field, text)                                                                   \
    {                                                                                              \
        .key = "allow_" name, .doc = text, .type = FN_OPT_STRLIST,                                 \
        .offset = offsetof(struct docker_conf, allow.field), .flags = FN_OPT_MAY_BE_ABSENT         \
    }

const struct fn_opt docker_options[] = {
    { .key = "docker_host",
      .doc = "Address of the Docker Engine API: unix:///path or tcp://host:port, which is plain "
             "HTTP unless "
             "`tls_verify`. Without a port 2375, with TLS 2376.",
      .dflt = "unix:///var/run/docker.sock",
      .type = FN_OPT_STR,
      .min = 1,
      .max = 250,
      .offset = offsetof(struct docker_conf, docker_host) },
    { .key = "tls_verify",
      .doc =
          "Speak TLS with an engine at tcp://, as Docker's own programs do if the variable has any "
          "text: its certificate must be signed by ca.pem of `cert_path` and name the host, and "
          "the node shows cert.pem.",
      .dflt = "false",
      .type = FN_OPT_BOOL,
      .offset = offsetof(struct docker_conf, tls_verify) },
    { .key = "cert_path",
      .doc =
          "Directory of ca.pem, cert.pem and key.pem for `tls_verify`; new files are used for new "
          "connections. When absent: $DOCKER_CONFIG or $HOME/.docker.",
      .type = FN_OPT_STR,
      .min = 1,
      .max = 1024,
      .offset = offsetof(struct docker_conf, cert_path),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "auth",
      .doc =
          "Registry credentials: the text of a Docker config.json. Its credHelpers and credsStore "
          "name programs that are asked, docker-credential-<name> in PATH.",
      .type = FN_OPT_STR,
      .offset = offsetof(struct docker_conf, auth),
      .flags = FN_OPT_MAY_BE_ABSENT | FN_OPT_MAY_BE_SECRET },
    { .key = "auth_file",
      .doc = "File with registry credentials, read at each pull. When absent: "
             "$DOCKER_CONFIG/config.json, $HOME/.docker/config.json or $HOME/.dockercfg.",
      .type = FN_OPT_STR,
      .offset = offsetof(struct docker_conf, auth_file),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "auth_parents",
      .doc = "Use the credentials of a registry's parent domain too, as Go Fn does: those of "
             "example.com for eu.registry.example.com.",
      .dflt = "false",
      .type = FN_OPT_BOOL,
      .offset = offsetof(struct docker_conf, auth_parents) },
    { .key = "networks",
      .doc = "Docker networks over which containers are spread; `bridge` = the engine's default "
             "network. When absent: a network named fnd that the node creates, on which containers "
             "cannot reach each other. If you name others, name their interfaces in "
             "grpc.refuse_interfaces.",
      .type = FN_OPT_STRLIST,
      .offset = offsetof(struct docker_conf, networks),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "load_file",
      .doc = "Tar file of images that is loaded into the engine when the runner starts, as by "
             "`docker load`; a call whose image is not there yet waits.",
      .type = FN_OPT_STR,
      .offset = offsetof(struct docker_conf, load_file),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "images_max",
      .doc =
          "Disk space for images, 0 = no limit. Beyond it, the images that were not used for "
          "longest are removed, of all images of the engine, unless a container has them; also when "
          "its disk is full. Use it only if the engine serves this runner alone.",
      .dflt = "0",
      .type = FN_OPT_BYTES,
      .offset = offsetof(struct docker_conf, images_max) },
    { .key = "images_exempt",
      .doc = "Images that `images_max` never removes, each with its tag, as the engine lists them. "
             "Those of `load_file` belong here.",
      .type = FN_OPT_STRLIST,
      .offset = offsetof(struct docker_conf, images_exempt),
      .flags = FN_OPT_MAY_BE_ABSENT },
    { .key = "label_tag",
      .doc = "Value of the label fn-agent-classifier, which containers then carry together with "
             "fn-agent-instance, as those of Go Fn do.",
      .type = FN_OPT_STR,
      .offset = offsetof(struct docker_conf, label_tag),
      .flags = FN_OPT_MAY_BE_ABSENT },
    ALLOW(
        "mounts", mounts,
          "Mounts that driver wrappers may add to containers: /dir, /dir/* (each directory "
          "directly below), volume:name or tmpfs; with :ro at the end they may be read only. "
          "When absent: none. Paths to the engine, the node's sockets or the kernel are always "
          "refused."),
    ALLOW("devices", devices,
          "Devices that driver wrappers may add to containers, such as /dev/kvm. When absent: "
          "none."),
    ALLOW("capabilities", capabilities,
          "Linux capabilities that driver wrappers may add to containers, such as NET_ADMIN. "
          "When absent: none."),
    ALLOW("runtimes", runtimes,
          "Container runtimes of the engine that driver wrappers may choose, such as runsc. When "
          "absent: none."),
    ALLOW("networks", networks,
          "Networks of the engine that driver wrappers may choose. When absent: only those of "
          "`networks`."),
    ALLOW("log_drivers", log_drivers,
          "Log drivers of the engine that driver wrappers may choose, with any options but unix "
          "sockets. When absent: none."),
    ALLOW("ulimits", ulimits,
          "Names of limits (ulimits) that driver wrappers may set higher than the node does. "
          "When absent: none."),
    ALLOW("rights", rights,
          "Rights that driver wrappers may give to containers although the runner's options do "
          "not: network, privileged-user, writable-root. When absent: none."),
    ALLOW("extra", extra,
          "Further members of the engine's create request that driver wrappers may set to any "
          "value, such as WorkingDir, HostConfig.Dns or HostConfig.OomScoreAdj. When absent: "
          "none."),
    { .key = "output",
      .doc = "Read what functions print to standard output and standard error. false = nothing of "
             "it is logged, also not when a function fails.",
      .dflt = "true",
      .type = FN_OPT_BOOL,
      .offset = offsetof(struct docker_conf, output) },
    { .key = "freeze_by",
      .doc =
          "How containers are frozen: auto = through their cgroup if it is on this machine, else "
          "by the engine; engine = always by the engine.",
      .dflt = "auto",
      .choices = "auto|engine",
      .type = FN_OPT_CHOICE,
      .offset = offsetof(struct docker_conf, freeze_by) },
    { .key = NULL },
};
