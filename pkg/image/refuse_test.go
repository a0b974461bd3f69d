package image_test

import (
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// run is all that a directory needs.
var run = map[string]entry{"run": {text: "x", mode: 0o100}}

// refusal is a directory that is not built, with the code and what the words must name.
type refusal struct {
	recipe string
	files  map[string]entry
	code   string
	says   string
}

func refuseBuilds(t *testing.T, refusals map[string]refusal) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(c.files)
			if c.recipe != "" {
				files["garrison.yaml"] = entry{text: c.recipe}
			}
			out := t.TempDir()
			_, err := image.Build(t.Context(),
				image.BuildOptions{Dir: tree(t, files), Out: filepath.Join(out, "x.gimg")})
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%q does not name %q", err, c.says)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Fatalf("left behind: %v", left)
			}
		})
	}
}

func daemon(run string) string {
	return "agent: a\nversion: 1.0.0\nkind: daemon\nrun:\n  command: run\n  " + run + "\n"
}

// badRecipes are refused, each with its code and a part of the reason.
var badRecipes = map[string]refusal{
	"a missing recipe":          {"", run, code.BadRecipe, "garrison.yaml"},
	"a recipe that is not YAML": {"a: [", run, code.BadRecipe, "garrison.yaml"},
	"a recipe that is a list":   {"- a", run, code.BadRecipe, "map"},
	"a key given twice":         {"agent: a\nagent: b", run, code.BadRecipe, "agent"},
	"an unknown key":            {"colour: red", run, code.BadRecipe, "colour"},
	"an unknown key in run":     {"run: {comand: x}", run, code.BadRecipe, "run.comand"},
	"a key in other letters":    {"Agent: a", run, code.BadRecipe, "Agent"},
	"a recipe in a circle": {
		"",
		map[string]entry{"run": run["run"], "garrison.yaml": {link: "garrison.yaml"}},
		code.BadRecipe,
		"garrison.yaml cannot be read: too many levels of symbolic links",
	},
	"a recipe that is a directory": {
		"",
		map[string]entry{"run": run["run"], "garrison.yaml/x": {}},
		code.BadRecipe,
		"garrison.yaml is not a regular file",
	},
	"a value of another type": {"agent: [a]", run, code.BadRecipe, "agent is of type list, want text"},
	"a version without quotes": {
		"agent: a\nversion: 1.10",
		run,
		code.BadRecipe,
		"version is of type number, want text, in quotes",
	},
	"a command with its arguments": {
		"run: {command: [a, b]}",
		run,
		code.BadRecipe,
		"run.command is of type list",
	},
	"an unknown kind": {
		"agent: a\nversion: 1.0.0\nkind: service",
		run,
		code.BadRecipe,
		"service",
	},
	"a bad agent name": {
		"agent: A_b\nversion: 1.0.0\nkind: files",
		run,
		code.BadName,
		"A_b",
	},
	"no version": {"agent: a\nkind: files", run, code.BadVersion, "semantic"},
	"a version with a v": {
		"agent: a\nversion: v1.0.0\nkind: files",
		run,
		code.BadVersion,
		"v1.0.0",
	},
	"a short version": {"agent: a\nversion: \"1.0\"\nkind: files", run, code.BadVersion, "1.0"},
	"an unknown platform": {
		"agent: a\nversion: 1.0.0\nkind: files\nos: plan8",
		run,
		code.UnknownPlatform,
		"plan8",
	},
	"an unknown takeover":     {daemon("takeover: steal"), run, code.BadRecipe, "steal"},
	"a bad time":              {daemon("stop_timeout: soon"), run, code.BadRecipe, "soon"},
	"a time that is too long": {daemon("ready: {soak: 48h}"), run, code.BadRecipe, "48h"},
	"a bad executor version": {
		"agent: a\nversion: 1.0.0\nkind: files\nexecutor_version: v2",
		run,
		code.BadVersion,
		"executor_version",
	},
	"a conflict with itself": {
		"agent: a\nversion: 1.0.0\nkind: files\nconflicts: [a]",
		run,
		code.BadManifest,
		"itself",
	},
	"a conflict with a bad name": {
		"agent: a\nversion: 1.0.0\nkind: files\nconflicts: [B_c]",
		run,
		code.BadName,
		"B_c",
	},
	"a bad range": {
		"agent: a\nversion: 1.0.0\nkind: files\nupgrades_from: [latest]", run, code.BadManifest, "upgrades_from",
	},
	"a bad skipped version": {
		"agent: a\nversion: 1.0.0\nkind: files\nskips: [v1]", run, code.BadVersion, "skips",
	},
	"a version that skips itself": {
		"agent: a\nversion: 1.0.0\nkind: files\nskips: [1.0.0]", run, code.BadManifest, "itself",
	},
	"a floor above the version": {
		"agent: a\nversion: 1.0.0\nkind: files\nfloor: 1.1.0", run, code.BadManifest, "floor",
	},
	"a requirement of itself": {
		"agent: a\nversion: 1.0.0\nkind: files\nrequires: {a: '>=1.0.0'}", run, code.BadManifest, "itself",
	},
	"a requirement with a bad range": {
		"agent: a\nversion: 1.0.0\nkind: files\nrequires: {b: soon}", run, code.BadManifest, "requires b",
	},
	"files with a command": {
		"agent: a\nversion: 1.0.0\nkind: files\nrun: {command: run}",
		run,
		code.BadManifest,
		"run.command",
	},
	"a description that is too long": {
		"agent: a\nversion: 1.0.0\nkind: files\ndescription: " + strings.Repeat("x", 2000),
		run,
		code.BadManifest,
		"description",
	},
}

func TestBuildRefusesARecipe(t *testing.T) {
	t.Parallel()
	refuseBuilds(t, badRecipes)
}

func TestBuildRefusesSockets(t *testing.T) {
	t.Parallel()
	refuseBuilds(t, map[string]refusal{
		"an unknown key in a socket": {
			"run: {sockets: [{name: a, port: 1}]}",
			run,
			code.BadRecipe,
			"run.sockets.port",
		},
		"a socket of files": {
			"agent: a\nversion: 1.0.0\nkind: files\nrun: {sockets: [{name: a, listen: ':1'}]}",
			run,
			code.BadManifest,
			"daemon",
		},
		"a socket without a name": {daemon("sockets: [{listen: ':1'}]"), run, code.BadManifest, "name"},
		"a socket's bad name": {
			daemon("sockets: [{name: 'a:b', listen: ':1'}]"),
			run,
			code.BadManifest,
			"a:b",
		},
		"two sockets of one name": {
			daemon("sockets: [{name: a, listen: ':1'}, {name: a, listen: ':2'}]"),
			run,
			code.BadManifest,
			"before",
		},
		"two sockets at one address": {
			daemon("sockets: [{name: a, listen: ':1'}, {name: b, listen: ':1'}]"),
			run,
			code.BadManifest,
			"before",
		},
		"a socket without a port": {
			daemon("sockets: [{name: a, listen: 127.0.0.1}]"),
			run,
			code.BadManifest,
			"127.0.0.1",
		},
		"a socket at any port": {
			daemon("sockets: [{name: a, listen: '127.0.0.1:0'}]"),
			run,
			code.BadManifest,
			":0",
		},
		"a socket at a named host": {
			daemon("sockets: [{name: a, listen: 'localhost:${label.port}'}]"),
			run,
			code.BadManifest,
			"localhost",
		},
		"a socket's unknown variable": {
			daemon("sockets: [{name: a, listen: '${address}'}]"),
			run,
			code.UnknownVariable,
			"${address}",
		},
	})
}

func TestBuildRefusesProbes(t *testing.T) {
	t.Parallel()
	refuseBuilds(t, map[string]refusal{
		"an unknown key in ready": {"run: {ready: {udp: x}}", run, code.BadRecipe, "run.ready.udp"},
		"a probe without a command": {
			daemon("ready: {exec: {args: [a]}}"),
			run,
			code.BadManifest,
			"run.ready.exec.command",
		},
		"a probe that is not of HTTP": {
			daemon("ready: {http: 'file:///etc/passwd'}"),
			run,
			code.BadManifest,
			`run.ready.http "file:///etc/passwd" is not a URL of http or https`,
		},
		"a probe outside": {daemon("ready: {exec: {command: ../x}}"), run, code.Outside, "../x"},
		"a probe that is not there": {
			daemon("ready: {exec: {command: walk}}"),
			run,
			code.NoCommand,
			"run.ready.exec.command",
		},
		"a probe's unknown variable": {
			daemon("ready: {exec: {command: run, args: ['${port}']}}"),
			run,
			code.UnknownVariable,
			"${port}",
		},
		"an unknown key in a probe": {
			daemon("ready: {exec: {program: run}}"),
			run,
			code.BadRecipe,
			"run.ready.exec.program",
		},
		"an exec probe beside another": {
			daemon("ready: {notify: true, exec: {command: run}}"),
			run,
			code.BadRecipe,
			"2 probes",
		},
		"two probes": {
			daemon("ready: {notify: true, tcp: 'x:1'}"),
			run,
			code.BadRecipe,
			"2 probes",
		},
	})
}

func valid() *imagev1.Manifest {
	digest := sha256.Sum256([]byte("x"))
	m := &imagev1.Manifest{
		Agent: "a", Version: "1.0.0", Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Run:      &imagev1.Run{Command: "run"},
		Blob: &imagev1.Blob{
			Digest:            digest[:],
			SizeBytes:         1,
			ChunkSizeBytes:    topology.ChunkSize,
			ChunkDigests:      [][]byte{digest[:]},
			UnpackedSizeBytes: 1,
			Entries:           1,
		},
	}
	m.Id = image.ID(m)
	return m
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	if err := image.Check(valid()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*imagev1.Manifest)
		code   string
	}{
		"an empty manifest": {func(m *imagev1.Manifest) { proto.Reset(m) }, code.BadName},
		"a name":            {func(m *imagev1.Manifest) { m.Agent = "a.b" }, code.BadName},
		"a version":         {func(m *imagev1.Manifest) { m.Version = "latest" }, code.BadVersion},
		"no platform":       {func(m *imagev1.Manifest) { m.Platform = nil }, code.UnknownPlatform},
		"a kind":            {func(m *imagev1.Manifest) { m.Kind = 77 }, code.BadManifest},
		"no kind":           {func(m *imagev1.Manifest) { m.Kind = 0 }, code.BadManifest},
		"no run":            {func(m *imagev1.Manifest) { m.Run = nil }, code.BadManifest},
		"a takeover":        {func(m *imagev1.Manifest) { m.Run.Takeover = 9 }, code.BadManifest},
		"a stop timeout":    {func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 1 << 30 }, code.BadManifest},
		"a zero byte":       {func(m *imagev1.Manifest) { m.Run.Args = []string{"a\x00"} }, code.BadManifest},
		"too many words": {
			func(m *imagev1.Manifest) { m.Run.Args = make([]string, 5000) }, code.BadManifest,
		},
		"too long an argument": {
			func(m *imagev1.Manifest) { m.Run.Args = []string{strings.Repeat("x", 1<<17)} }, code.BadManifest,
		},
		"no blob":        {func(m *imagev1.Manifest) { m.Blob = nil }, code.BadManifest},
		"a short digest": {func(m *imagev1.Manifest) { m.Blob.Digest = []byte{1} }, code.BadManifest},
		"a short chunk digest": {
			func(m *imagev1.Manifest) { m.Blob.ChunkDigests[0] = []byte{1} }, code.BadManifest,
		},
		"no bytes": {func(m *imagev1.Manifest) { m.Blob.SizeBytes = 0 }, code.BadManifest},
		"more than 4 GiB": {
			func(m *imagev1.Manifest) { m.Blob.SizeBytes = image.MaxSize + 1 }, code.BadManifest,
		},
		"no chunk size": {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = 0 }, code.BadManifest},
		"too large chunks": {
			func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = topology.ChunkSize + 1 }, code.BadManifest,
		},
		"too small chunks": {
			func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes, m.Blob.SizeBytes = 1, 1<<20 }, code.BadManifest,
		},
		"a missing chunk digest": {
			func(m *imagev1.Manifest) { m.Blob.SizeBytes = topology.ChunkSize + 1 }, code.BadManifest,
		},
		"too large when unpacked": {
			func(m *imagev1.Manifest) { m.Blob.UnpackedSizeBytes = image.MaxUnpacked + 1 }, code.BadManifest,
		},
		"too many entries": {
			func(m *imagev1.Manifest) { m.Blob.Entries = image.MaxEntries + 1 }, code.BadManifest,
		},
		"an empty tag": {
			func(m *imagev1.Manifest) { m.Tags = map[string]string{"": "x"} }, code.BadManifest,
		},
		"an id of something else": {func(m *imagev1.Manifest) { m.Version = "1.0.1" }, code.WrongID},
		"a variable without a name": {
			func(m *imagev1.Manifest) { m.Run.Env = map[string]string{"A": "${}"} }, code.UnknownVariable,
		},
		"a command leading out":    {func(m *imagev1.Manifest) { m.Run.Command = "a/../../b" }, code.Outside},
		"a command with backslash": {func(m *imagev1.Manifest) { m.Run.Command = `a\b` }, code.Outside},
	} {
		t.Run(name, func(t *testing.T) {
			m := valid()
			c.change(m)
			wantCode(t, image.Check(m), c.code)
		})
	}
}

func TestVersionsOfOtherSystemsAreAccepted(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"1.2.3": true, "0.0.3vrelease-20130401-g0bd6d2c": true, "master-20160527T165825Z-g020d169": true,
		"1.2.3.4": true, "1:2": false, "1/2": false, "../1": false, "-1": false, "latest": false, "v1.0.0": false,
		"1.0": false, "": false,
		strings.Repeat("1", 129): false,
	} {
		if err := image.CheckVersion(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", text, err, ok)
		}
	}
}
