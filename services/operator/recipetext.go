package operator

// recipeText is the help of image build: everything that may stand in garrison.yaml.
const recipeText = `Pack a directory with a garrison.yaml into an image file.

Everything in the directory is packed; garrison.yaml says what it is:

  agent: beacon                 # the agent's name
  version: "1.0.0"              # a semantic version
  kind: daemon                  # daemon, oneshot (a set-up, run once), files, self or external
  os: linux                     # without them those of this machine
  arch: amd64
  description: says its version
  tags: {team: web}
  run:                          # for a daemon or oneshot
    command: beacon             # the program, relative to the directory
    args: ["-listen", "127.0.0.1:${label.port}"]
    env: {STATE: "${state}"}    # nothing else is passed on but PATH, GARRISON_*, NOTIFY_SOCKET, LISTEN_*
    sockets:                    # for a daemon: listened on for it, and handed from version to version
      - {name: http, listen: "127.0.0.1:${label.port}"}
    takeover: restart           # or overlap: the new one is ready before the old one is stopped
    ready:                      # how a version proves that it works; one of http, tcp and notify
      http: http://127.0.0.1:${label.port}/
      timeout: 30s              # how long it may take
      soak: 1s                  # how long it must last then
    stop_timeout: 10s           # between SIGTERM and SIGKILL

Only agent, version, kind and, for a daemon or oneshot, run.command must be there. Known in run:
${agent}, ${version}, ${server} (its id), ${state} (a directory that outlives versions), ${image} (where
the image lies) and ${label.NAME} (a label of the server; garrison server label sets it).`
