package image_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
)

func dirOf(t *testing.T, recipe string) string {
	t.Helper()
	return tree(t,
		map[string]entry{"run": {text: "#!/bin/sh", mode: 0o755}, image.RecipeName: {text: recipe, mode: 0o644}})
}

func TestARecipeSaysWhatAnAgentMayUseAndWhatItIsKeptFrom(t *testing.T) {
	t.Parallel()
	text := daemon(`limits: {memory: 64MiB, cpu: 150%, tasks: 20, open_files: 1024}
  sandbox:
    user: agent
    no_new_privileges: true
    read_only_system: true
    writable: [/var/log/agent]
    private_tmp: true
    no_homes: true
    capabilities: []`)
	m, _ := build(t, image.BuildOptions{Dir: dirOf(t, text)})
	want := &imagev1.Run{
		Command: m.GetRun().GetCommand(),
		Limits:  &imagev1.Limits{MemoryBytes: 64 << 20, CpuPercent: 150, Tasks: 20, OpenFiles: 1024},
		Sandbox: &imagev1.Sandbox{
			User: "agent", NoNewPrivileges: true, ReadOnlySystem: true, Writable: []string{"/var/log/agent"},
			PrivateTmp: true, NoHomes: true, BoundCapabilities: true,
		},
	}
	if diff := cmp.Diff(want, m.GetRun(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsAndSandboxesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, code, says string }{
		"a size without a unit": {daemon("limits: {memory: '64'}"), code.BadRecipe, "64MiB"},
		"a size of nothing":     {daemon("limits: {memory: 0MiB}"), code.BadRecipe, "0MiB"},
		"a size that is a number": {
			daemon("limits: {memory: 64}"), code.BadRecipe, "run.limits.memory is of type number, want text",
		},
		"less than a program needs": {
			daemon("limits: {memory: 1KiB}"), code.BadManifest, "run.limits.memory is 1024",
		},
		"a share without percent": {daemon("limits: {cpu: '1.5'}"), code.BadRecipe, "1.5"},
		"too large a share":       {daemon("limits: {cpu: 1000000%}"), code.BadManifest, "run.limits.cpu"},
		"too few open files":      {daemon("limits: {open_files: 2}"), code.BadManifest, "run.limits.open_files"},
		"too many tasks":          {daemon("limits: {tasks: 100000000}"), code.BadManifest, "run.limits.tasks"},
		"an unknown limit":        {daemon("limits: {disk: 1GiB}"), code.BadRecipe, "run.limits.disk"},
		"an unknown confinement":  {daemon("sandbox: {jail: true}"), code.BadRecipe, "run.sandbox.jail"},
		"a user that is no name":  {daemon("sandbox: {user: 'a b'}"), code.BadManifest, "a b"},
		"a user by number":        {daemon("sandbox: {user: '0'}"), code.BadManifest, "name of a user"},
		"writable where all is":   {daemon("sandbox: {writable: [/srv]}"), code.BadManifest, "read_only_system"},
		"a writable relative path": {
			daemon("sandbox: {read_only_system: true, writable: [srv]}"), code.BadManifest, "srv",
		},
		"all writable": {
			daemon("sandbox: {read_only_system: true, writable: [/]}"), code.BadManifest, "absolute path below /",
		},
		"a path that leads elsewhere": {
			daemon("sandbox: {read_only_system: true, writable: [/srv/../etc]}"), code.BadManifest, "/srv/../etc",
		},
		"a capability in other words": {
			daemon("sandbox: {capabilities: [net_bind_service]}"), code.BadManifest, "net_bind_service",
		},
		"limits of what does not run": {
			"agent: a\nversion: 1.0.0\nkind: files\nrun: {limits: {tasks: 1}}", code.BadManifest, "daemon",
		},
		"a sandbox of what is not run": {
			"agent: a\nversion: 1.0.0\nkind: files\nrun: {sandbox: {no_homes: true}}", code.BadManifest, "daemon",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := image.Build(t.Context(), image.BuildOptions{Dir: dirOf(t, c.text), Out: t.TempDir() + "/a.gimg"})
			r := fault.RefusalOf(err)
			if r.GetCode() != c.code || !strings.Contains(r.GetMessage(), c.says) {
				t.Errorf("got %v, want %s that says %q", err, c.code, c.says)
			}
		})
	}
}
