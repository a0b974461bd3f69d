package cli

// SelectorsText is the help topic about servers that are selected.
const SelectorsText = `Servers are selected with --on SELECTOR, which means the same on every command that has it.

  all                          every server
  SERVER[,SERVER]              by id, a prefix of the id that only one has, or name
  env=NAME                     the servers of an environment
  LABEL=VALUE, LABEL!=VALUE    by label
  'LABEL in (A,B)'             one of several values; not in (A,B) is none of them
  FIELD=VALUE                  by platform, os, arch, hostname, kernel, distribution, presence or cell;
                               presence is online or offline, and a late server is still online
  memory>=16GiB, cpus>4        by an ordered field: memory, cpus, executor; =, >, >=, <, <=

Terms with commas between them, and repeated --on, must all match. --not SELECTOR excludes servers. A label that has the
name of a field is written label.NAME. Wildcards are not supported.

  garrison server list --on env=prod,rack=a
  garrison up beacon --on 'rack in (a,b)' --not db-1
  garrison task list --on 'executor<1.4.0' --state failed`

// ImagesText is the help topic about images that are named.
const ImagesText = `An image is named by the agent and what of it is meant.

  AGENT                        the highest version of the channel of the server's environment, or of the default channel
  AGENT@VERSION                that version; one that is not in that channel is taken from the default channel
  AGENT@CHANNEL                the highest version of that channel
  AGENT@IMAGE-UUID             that image, whatever the channels hold
  IMAGE-UUID                   in garrison image: an id, or a prefix of it that only one has

Without a version no server is downgraded, and a version that failed on a server is not tried there again.

  garrison install beacon --on all
  garrison up beacon@1.4.0 --on web-1
  garrison image show 9113db4a`
