package image_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// badConfigurations are refused, each with its code and a part of the reason.
var badConfigurations = map[string]refusal{
	"an unknown key in a config": {
		"run: {configs: [{template: a, file: b}]}",
		run,
		code.BadRecipe,
		"run.configs.file",
	},
	"an unknown key in a rehearsal": {
		"run: {rehearsal: {run: b}}",
		run,
		code.BadRecipe,
		"run.rehearsal.run",
	},
	"an unknown reload":       {daemon("reload: kill"), run, code.BadRecipe, "kill"},
	"a config without a path": {daemon("configs: [{template: run}]"), run, code.Outside, "path"},
	"a config outside": {
		daemon("configs: [{template: run, path: ../x}]"),
		run,
		code.Outside,
		"../x",
	},
	"a template outside": {
		daemon("configs: [{template: /etc/passwd, path: x}]"),
		run,
		code.Outside,
		"/etc/passwd",
	},
	"a template that is not there": {
		daemon("configs: [{template: none, path: x}]"),
		run,
		code.BadTemplate,
		`"none" is not in the directory`,
	},
	"a template that is a directory": {
		daemon("configs: [{template: d, path: x}]"),
		map[string]entry{"run": run["run"], "d/x": {}},
		code.BadTemplate,
		`"d" is not a regular file`,
	},
	"a template in a circle": {
		daemon("configs: [{template: l, path: x}]"),
		map[string]entry{"run": run["run"], "l": {link: "l"}},
		code.BadTemplate,
		`"l" cannot be read: too many levels`,
	},
	"a template that is broken": {
		daemon("configs: [{template: broken, path: x}]"),
		map[string]entry{"run": run["run"], "broken": {text: "{{if}}"}},
		code.BadTemplate,
		"broken:1",
	},
	"a config twice": {
		daemon("configs: [{template: run, path: x}, {template: run, path: ./x}]"),
		run,
		code.BadManifest,
		"twice",
	},
	"a config in a config": {
		daemon("configs: [{template: run, path: x}, {template: run, path: x/y}]"),
		run,
		code.BadManifest,
		"which is a file",
	},
	"a config on a directory": {
		daemon("configs: [{template: run, path: x/y}, {template: run, path: x}]"),
		run,
		code.BadManifest,
		"directory",
	},
	"a mode with more rights": {
		daemon("configs: [{template: run, path: x, mode: 04755}]"),
		run,
		code.BadManifest,
		"4755",
	},
	"a mode in tens": {
		daemon("configs: [{template: run, path: x, mode: 640}]"),
		run,
		code.BadManifest,
		"1200",
	},
	"a mode that hides it": {
		daemon("configs: [{template: run, path: x, mode: 0040}]"),
		run,
		code.BadManifest,
		"owner",
	},
	"a rehearsal without a command": {
		daemon("rehearsal: {args: [a]}"),
		run,
		code.BadManifest,
		"run.rehearsal.command",
	},
	"a rehearsal that is not there": {
		daemon("rehearsal: {command: walk}"),
		run,
		code.NoCommand,
		"run.rehearsal.command",
	},
	"a name of metadata with a dash": {
		daemon("args: ['${metadata.log-level}']"),
		run,
		code.UnknownVariable,
		"log-level",
	},
}

func TestBuildRefusesConfigurations(t *testing.T) {
	t.Parallel()
	refuseBuilds(t, badConfigurations)
}

// badFiles are refused, each with its code and a part of the reason.
var badFiles = map[string]refusal{
	"a daemon without a command": {
		"agent: a\nversion: 1.0.0\nkind: daemon",
		run,
		code.BadManifest,
		"run.command",
	},
	"an absolute command": {
		"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: /bin/sh}",
		run,
		code.Outside,
		"/bin/sh",
	},
	"a command outside": {
		"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: ../x}",
		run,
		code.Outside,
		"../x",
	},
	"a command that is not there": {
		"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: walk}",
		run,
		code.NoCommand,
		`"walk" is not in the directory`,
	},
	"a command that is a directory": {
		"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: d}",
		map[string]entry{"d/x": {}},
		code.NoCommand,
		"not a file",
	},
	"a command not executable": {
		daemon("args: []"),
		map[string]entry{"run": {text: "x"}},
		code.NoCommand,
		"executable",
	},
	"an unknown variable":       {daemon("args: ['${hostname}']"), run, code.UnknownVariable, "${hostname}"},
	"a variable without an end": {daemon("args: ['${state']"), run, code.UnknownVariable, "${state"},
	"a bad environment name":    {daemon("env: {a-b: c}"), run, code.BadManifest, "a-b"},
	"a command through such a link": {
		"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: l}",
		map[string]entry{"l": {link: "/bin/sh"}},
		code.NoCommand,
		"l",
	},
}

func TestBuildRefusesFilesAndCommands(t *testing.T) {
	t.Parallel()
	refuseBuilds(t, badFiles)
}
