package operator

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// dryRuns is a command line for each command with --dry-run. ID is an intent that was accepted, DIR a directory.
var dryRuns = []string{
	"apply -f DIR/fleet.yaml", "check --fix", "configure beacon --set level=debug --on all",
	"env default prod beacon@1.0.0 --reach all", "image prune beacon --older-than 1ms",
	"import ansible DIR/hosts", "import triton DIR/dump", "install beacon --on all",
	"instance adopt web-1 12 --as beacon@1.0.0", "instance release web-1 beacon", "cancel ID",
	"undo --purge --on all", "remove beacon --on all", "restore accept --on all", "restore accept --revocations --yes",
	"rollout start --plan DIR/plan.json", "rollout start beacon@2.0.0 --on all", "undo ID --waves 1",
	"server clean gone-1 --ssh root@gone --ssh-command true", "server decommission web-1",
	"server decommission web-1 --lost", "server decommission --on all", "server forget --on all",
	"server set web-1 --env prod", "server quarantine web-1", "server refresh web-1", "server reinstall web-1",
	"server release --on all", "server enroll web-2 --replace", "server revoke --on all", "server refresh web-1 --scan",
	"source sync site", "undo ID",
	"restart beacon --on all", "up beacon@2.0.0 --on all", "up beacon@2.0.0 --on all --batch 50%",
}

// written is a command line for each command that has the dry run of all others, with what it says: the first call that
// would change something ends it.
var written = map[string]string{
	"advisory import DIR/osv.json":                    "would import 1 advisory record of source osv (0 left out",
	"agent create a --set level=debug":                "would create agent a: kind=daemon, metadata.level=debug",
	"agent delete beacon":                             "would delete agent beacon",
	"agent update beacon --description x":             "description=x",
	"app create a":                                    "would create application a",
	"app delete net":                                  "would delete application net",
	"app update net --description x":                  "description=x",
	"block beacon@1.0.0 -m x":                         "would block beacon: version=1.0.0, reason=x",
	"unblock 1a2b3c4d -m x":                           "would delete block 1a2b3c4d, because: x",
	"channel create c":                                "would create channel c",
	"channel delete c":                                "would delete channel c",
	"channel remove tools@1.0.0 --channel release":    "would remove from its channel image tools@1.0.0: ",
	"env create e":                                    "would create environment e",
	"env default prod beacon --none":                  "would unset default beacon: environment=prod",
	"env delete prod":                                 "would delete environment prod",
	"hold --env prod --until 2d -m x":                 "would change environment prod: until=",
	"unhold --env prod":                               "would change environment prod",
	"env update prod --channel release":               "channel=release",
	"env update prod --keep 2/label.rack":             "would change environment prod: field=label.rack, servers=2",
	"instance report vm --from DIR/found":             "would report external vm: version=1, health=good",
	"agent update vm --want 1.0.0":                    "would change agent vm: want.all=1.0.0",
	"hold beacon --on all --until 1h -m x":            "would set hold beacon: all=true, until=",
	"image activate beacon@1.0.0":                     "would activate image beacon@1.0.0",
	"image delete tools@1.0.0":                        "would delete image tools@1.0.0",
	"image disable beacon@1.0.0":                      "would disable image beacon@1.0.0",
	"image export tools@1.0.0":                        "would export image tools@1.0.0: ",
	"image sign DIR/tools.gimg --key DIR/source.key":  "would sign ",
	"image import DIR/tools.gimg":                     "would change nothing: image tools@1.0.0 for linux/amd64 is",
	"image promote beacon@1.0.0 --channel c":          "would promote image beacon@1.0.0: channel=c",
	"label-rule set r --when os=linux --label a=b":    "would set label rule r: when=os in linux, labels.a=b",
	"label-rule unset r":                              "would delete label rule r",
	"server accept K7QF-XMZA-3B2T-WE5J-HN4Y":          "would accept machine: ",
	"server reject K7QF-XMZA-3B2T-WE5J-HN4Y":          "would reject machine: ",
	"rollout abort " + paused:                         "would abort rollout " + paused,
	"rollout approve " + paused:                       "would approve rollout " + paused,
	"rollout pause " + paused:                         "would pause rollout " + paused,
	"rollout reject " + paused + " -m x":              "would reject rollout " + paused + ": reason=x",
	"rollout resume " + paused:                        "would resume rollout " + paused,
	"rollout resume " + paused + " --until-wave next": "would step rollout " + paused,
	"server enroll web-9":                             "would enroll server web-9: valid=1h",
	"server forget gone-2":                            "would forget server gone-2",
	"server set web-1 a=b":                            "would change server web-1: label.a=b",
	"server set web-1 --name web-7":                   "would change server web-1: name=web-7",
	"source publish DIR/new --key DIR/source.key":     "",
	"source add site DIR/site --key SIGNER":           "would add source site",
	"source remove site":                              "would remove source site",
	"token create t --uses 2":                         "would create token t: uses=2, valid=1h, name-from=hostname",
	"token revoke t":                                  "would revoke token t",
	"unhold beacon --on all":                          "would delete hold beacon: all=true",
	"user create bob --role viewer":                   "would create user bob: role=viewer, valid=90d",
	"user revoke ann":                                 "would revoke user ann",
}

// anns is the context file of an operator.
const anns = `{"url": "nats://here", "actor": "ann", "role": "operator", "jwt": "j", "seed": "SECRET"}`

// elsewhere are commands whose dry run needs more than a bus: the dumps of another system, or another machine.
var elsewhere = map[string]bool{"triton": true, "clean": true}

func TestADryRunOfAnyCommandLeavesNothingInTheLedger(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), t.TempDir()
	words := r.prepare(t, dir)
	execute := func(line string) (code int, said string) {
		code, _, said = r.execute(t, dir, line)
		return code, said
	}
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		if c.Flags().Lookup("dry-run") == nil {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "garrison ") + " "
		known := false
		for _, line := range slices.Concat(dryRuns, slices.Sorted(maps.Keys(written))) {
			if !strings.HasPrefix(line, path) {
				continue
			}
			known = true
			before := recorded(t, r.bus)
			code, said := execute(words.Replace(line) + " --dry-run")
			if after := recorded(t, r.bus); after != before {
				t.Errorf("%s --dry-run was recorded: %s", line, said)
			}
			want := written[line]
			if !strings.Contains(said, want) || want != "" && !strings.HasPrefix(said, "would ") {
				t.Errorf("%s --dry-run says %q, want %q", line, said, want)
			}
			if code != cli.ExitOK && !elsewhere[c.Name()] {
				t.Errorf("%s --dry-run ends with %d: %s", line, code, said)
			}
		}
		if !known {
			t.Errorf("%s has --dry-run and no line here", path)
		}
	})
}

// prepare makes what the lines of dryRuns and written name, and returns what stands for the words in capitals.
func (r *runner) prepare(t *testing.T, dir string) *strings.Replacer {
	t.Helper()
	r.fakes.restored = &accessv1.Restored{BackupAt: ago(time.Hour), RestoredAt: ago(time.Minute)}
	r.fakes.losses = []*registryv1.ServerLoss{{Server: &serverv1.Server{Id: "web-1", Name: "web-1"}}}
	for name, text := range map[string]string{
		"ctx.json":   anns,
		"fleet.yaml": "format: 1\nenvironments: {prod: {}}\n", "hosts": "[web]\nweb-1\n",
		"osv.json":            `{"id":"X","affected": [{"package": {"ecosystem":"Go","name":"a"},"versions":["1"]}]}`,
		"found":               "{\"name\": \"a\", \"version\": \"1\"}",
		"tools/hello":         "hello\n",
		"tools/garrison.yaml": "agent: tools\nversion: 1.0.0\nkind: files\nos: linux\narch: amd64\n",
	} {
		path := filepath.Join(dir, name)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	signer := r.fakes.addSource(t, dir)
	for _, line := range []string{
		"env create prod", "app create net", "agent create beacon --set a=b",
		"agent create vm --kind external --set a=b",
		"image build " + dir + "/tools --out " + dir + "/tools.gimg", "image import " + dir + "/tools.gimg",
		"source publish " + dir + "/site --key " + dir + "/source.key",
		"rollout plan beacon@2.0.0 --on all --keep 12/label.rak --out " + dir + "/plan.json",
	} {
		r.execute(t, dir, line)
	}
	_, _, said := r.execute(t, dir, "up beacon@2.0.0 --on all --yes --detach")
	id := regexp.MustCompile(`intent ([0-9a-f-]{13})`).FindStringSubmatch(said)
	if id == nil {
		t.Fatalf("no intent was accepted: %s", said)
	}
	return strings.NewReplacer("ID", id[1], "DIR", dir, "SIGNER", signer)
}

// addSource adds a source below a directory, and returns the public half of its key.
func (f *fakes) addSource(t *testing.T, dir string) (signer string) {
	t.Helper()
	signer, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/source.key", seed, 0o600); err != nil {
		t.Fatal(err)
	}
	f.sources = []*sourcev1.Source{{Name: "site", Location: dir + "/site", Keys: []string{signer}}}
	return signer
}

// execute runs a command line with the context file of a directory, and returns its exit code, what it prints as data,
// and all of it.
func (r *runner) execute(t *testing.T, dir, line string) (code int, data, all string) {
	var out, said bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), io.MultiWriter(&out, &said), &said, func(name string) string {
		return map[string]string{"GARRISON_CONTEXT": dir + "/ctx.json", "HOME": dir}[name]
	})
	env.Dial = func(o bus.Options) (*bus.Conn, error) { return r.bus.Dial(t, o.Name), nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = run(ctx, env, strings.Fields(line))
	return code, out.String(), said.String()
}

// recorded returns where the ledger and the stream of intents end.
func recorded(t *testing.T, b *bustest.Bus) (ends [2]uint64) {
	t.Helper()
	conn := b.Dial(t, "observer")
	for n, stream := range []string{topology.Ledger, topology.Intents} {
		info, err := conn.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		ends[n] = info.LastSequence
	}
	return ends
}
