package image_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
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
			if !refusedFor(err, c) {
				t.Fatalf("%v, want %s with %q", err, c.code, c.says)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Fatalf("left behind: %v", left)
			}
		})
	}
}

// refusedFor reports whether an error is a refusal for a reason, alone or among others.
func refusedFor(err error, c refusal) bool {
	r := fault.RefusalOf(err)
	said := append(r.GetFaults(), &apiv1.Fault{Code: r.GetCode(), Message: r.GetMessage()})
	return fault.Is(err, fault.Invalid) && slices.ContainsFunc(said, func(f *apiv1.Fault) bool {
		return f.GetCode() == c.code && strings.Contains(f.GetMessage(), c.says)
	})
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
