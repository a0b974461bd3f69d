package image

// recipeText is the help of image build: everything that may stand in garrison.yaml.
const recipeText = `Pack a directory with a garrison.yaml into an image file.

Everything in the directory is packed; garrison.yaml says what it is:

  agent: beacon                 # the agent's name
  version: "1.0.0"              # a semantic version
  kind: daemon                  # daemon, oneshot (a set-up, run once), files or self
  os: linux                     # without them those of this machine
  arch: amd64
  description: says its version
  tags: {team: web}
  executor_version: "0.1.0"     # the least version of the executor that can run it
  conflicts: [old-beacon]       # agents that must not be on the same server
  requires: {db: ">=2.0.0"}     # agents that must be there, with the versions it works with
  upgrades_from: [">=0.5.0"]    # the versions that it may replace; a rollout goes by way of others where it must
  skips: ["0.6.0"]              # versions that no path to this one goes by way of
  floor: "0.5.0"                # the lowest version that may replace it
  run:                          # for a daemon or oneshot
    command: beacon             # the program, relative to the directory
    args: ["-listen", "127.0.0.1:${label.port}"]
    env: {STATE: "${state}"}    # nothing else is passed on but PATH, GARRISON_*, NOTIFY_SOCKET, LISTEN_*
    sockets:                    # for a daemon: listened on for it, and handed from version to version
      - {name: http, listen: "127.0.0.1:${label.port}"}
    configs:                    # rendered from Go templates before each change, into ${config}
      - {template: etc/beacon.conf, path: beacon.conf, mode: 0640}
    reload: restart             # or signal: SIGHUP, when only its configuration changed
    rehearsal: {command: beacon, args: ["-check", "${config}/beacon.conf"]}  # must end with 0 before the switch
    takeover: restart           # or overlap: the new one is ready before the old one is stopped
    ready:                      # how a version proves that it works; one of http, tcp, notify and
                                # exec: {command: check, args: []}, a program that ends with 0
      http: http://127.0.0.1:${label.port}/
      timeout: 30s              # how long it may take
      soak: 1s                  # how long it must last then
      restart_after: 4          # probes that fail in a row, 15 s apart, until it is restarted; 0: never;
                                # without it: 4 that get no answer at all
    stop_timeout: 10s           # between SIGTERM and SIGKILL
    limits:                     # what it may use; a server that cannot keep to one refuses the image
      memory: 64MiB             # KiB, MiB, GiB or TiB
      cpu: 50%                  # of one processor; 150% is one and a half
      tasks: 20                 # processes and threads
      open_files: 1024
    sandbox:                    # what it is kept from; the same holds
      user: beacon              # who must be there; without it the executor's own, as a rule root
      no_new_privileges: true
      read_only_system: true    # but for its state, and
      writable: [/var/log/beacon]
      private_tmp: true
      no_homes: true
      capabilities: [CAP_NET_BIND_SERVICE]   # no others; [] drops all

Only agent, version, kind and, for a daemon or oneshot, run.command must be there. Known in run:
${agent}, ${version}, ${server} (its id), ${state} (a directory that outlives versions), ${image} (where
the image lies), ${config} (where its configuration was rendered), ${label.NAME} (a label of the server;
garrison server label sets it) and ${metadata.NAME} (a value of its metadata; garrison configure sets it).
A template says {{.agent}}, {{.config}}, {{.labels.NAME}}, {{.metadata.NAME}} and so on; what is not there
is refused before anything is touched. {{lookup .metadata "NAME" "DEFAULT"}} may be missing; quote and json
write a value as JSON.`
