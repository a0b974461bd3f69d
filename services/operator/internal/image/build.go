package image

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/image"
	rules "github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func buildCommand(env *cli.Env) *cobra.Command {
	o := image.BuildOptions{}
	var key, components string
	var f file
	c := &cobra.Command{
		Use:   "build DIR | FILE",
		Short: "Pack a directory, a program, an archive or a package into an image file.",
		Args:  cli.Exactly("DIR"),
		Long:  recipeText + fileText,
		Example: "  garrison image build ./beacon\n" +
			"  garrison image build ./beacon --version 1.1.0 --sbom auto --out beacon.gimg\n" +
			"  garrison image build prometheus-node-exporter_1.5.0-1_amd64.deb --out exporter.gimg\n" +
			"  garrison image build node_exporter-1.9.1.linux-amd64.tar.gz\n" +
			"  garrison image build agent.tgz --triton agent.imgmanifest --run 'bin/agent -f etc/agent.json'",
		RunE: func(c *cobra.Command, a []string) error {
			err := cli.FirstError(f.check(c, a[0]), cli.CheckTarget(o.Out))
			if err != nil {
				return err
			}
			if key != "" {
				if o.Key, err = readKey(key); err != nil {
					return err
				}
			}
			if o.FindSBOM = components == "auto"; !o.FindSBOM {
				o.SBOM = components
			}
			o.At = env.Now()
			o.Note = func(text string) { env.Say("note: %s", text) }
			m, err := f.build(c.Context(), env, o, a[0])
			if err != nil || m == nil {
				return err
			}
			cli.SayWritten(env, cmp.Or(o.Out, image.FileName(m)))
			return cli.ShowRow(env, manifestListing, m)
		},
	}
	cli.OutVar(c.Flags(), &o.Out, "the image `FILE`; default AGENT-VERSION-OS-ARCH"+image.Extension)
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "sign the image with the secret half of a "+
		"key, in this `FILE`")
	cli.TextVar(c.Flags(), &components, "sbom", cli.NotEmpty("SBOM"), "put this list of components into the image: "+
		"a `FILE` in CycloneDX or SPDX JSON, or auto, which makes one of Go programs, and of a package its own name")
	cli.TextVar(c.Flags(), &o.Version, "version", rules.CheckVersion, "override the `VERSION` of the recipe")
	cli.TextVar(c.Flags(), &o.OS, "os", rules.CheckOS, "override the operating `SYSTEM` of the recipe")
	cli.TextVar(c.Flags(), &o.Arch, "arch", rules.CheckArch, "override the `ARCHITECTURE` of the recipe")
	f.add(c)
	return c
}

type manifest = *imagev1.Manifest

// manifestListing lists image files, which have no state.
var manifestListing = listing.Listing[manifest]{
	Name: func(m manifest) string { return m.GetId() },
	Columns: []listing.Column[manifest]{
		listing.Col("ID", manifest.GetId),
		listing.Col("AGENT", manifest.GetAgent),
		listing.Col("VERSION", manifest.GetVersion),
		listing.Col("PLATFORM", func(m manifest) string { return display.Platform(m.GetPlatform()) }),
		listing.Col("KIND", func(m manifest) string { return listing.Word(m.GetKind()) }),
		listing.Col("SIZE", func(m manifest) string { return listing.Size(m.GetBlob().GetSizeBytes()) }),
		listing.Wide("SIGNED BY", display.Signers),
		listing.Wide("DIGEST", func(m manifest) string { return fmt.Sprintf("%x", m.GetBlob().GetDigest()) }),
	},
}

func verifyCommand(env *cli.Env) *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use:     "verify FILE",
		Example: "  garrison image verify beacon.gimg",
		Short:   "Check every byte of an image file against its manifest.", Args: cli.Exactly("FILE"),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckPath(a[0], "garrison image build DIRECTORY --out FILE, which makes one"); err != nil {
				return err
			}
			f, err := image.Open(a[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			if err := f.Verify(c.Context()); err != nil {
				return err
			}
			if len(keys) == 0 {
				return cli.Changed(env, manifestListing, f.Manifest(), "%s is whole", a[0])
			}
			if err := seal.Trust(f.Manifest(), keys); err != nil {
				return err
			}
			return cli.Changed(env, manifestListing, f.Manifest(), "%s is whole and signed", a[0])
		},
	}
	cli.NamesVar(c.Flags(), &keys, "key", seal.CheckKey,
		"require a signature by one of these public `KEYS`; repeatable")
	return c
}

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
  machine:                      # what the machine must have; a plan leaves other servers out
    kernel: "5.10"              # or newer
    distributions: {debian: "12", ubuntu: "22.04"}  # one of them, at that version or newer
    cgroup_v2: true
    memory: 2GiB
    disk: 1GiB                  # free beside the files of the image
  upgrades_from: [">=0.5.0"]    # what it may replace; a rollout goes by way of others
  skips: ["0.6.0"]              # versions that no path to this one goes by way of
  floor: "0.5.0"                # the lowest version that may replace it
  run:                          # for a daemon or oneshot
    command: beacon             # the program, relative to the directory
    args: ["-listen", "127.0.0.1:${label.port}"]
    env: {STATE: "${state}"}    # also passed: PATH, GARRISON_*, NOTIFY_SOCKET, LISTEN_*
    sockets:                    # of a daemon: handed from version to version
      - {name: http, listen: "127.0.0.1:${label.port}"}
    configs:                    # rendered from Go templates before each change, into ${config}
      - {template: etc/beacon.conf, path: beacon.conf, mode: 0640}
    reload: restart             # or signal: SIGHUP, when only its configuration changed
    rehearsal: {command: beacon, args: ["-check"]}  # must end with 0 before the switch
    takeover: restart           # or overlap: the new one is ready before the old one is stopped
    ready:                      # how a version proves that it works; one of http, tcp, notify and
                                # exec: {command: check, args: []}, a program that ends with 0
      http: http://127.0.0.1:${label.port}/
      timeout: 30s              # how long it may take
      soak: 1s                  # how long it must last then
      restart_after: 4          # failed probes in a row, 15 s apart, until it is restarted;
                                # 0: never; without it: 4 without an answer
    stop_timeout: 10s           # between SIGTERM and SIGKILL
    limits:                     # a server that cannot keep to one refuses the image
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
garrison server set sets it) and ${metadata.NAME} (a value of its metadata; garrison configure sets it).
A template says {{.agent}}, {{.config}}, {{.labels.NAME}}, {{.metadata.NAME}} and so on; what is not there
is refused before anything is touched. {{lookup .metadata "NAME" "DEFAULT"}} may be missing; quote and json
write a value as JSON.

With --sbom FILE, or a file garrison-sbom.json in the directory, the image has a list of its components, which
garrison exposed looks at. Without either it has none, so that it stays the image that it was before.`
