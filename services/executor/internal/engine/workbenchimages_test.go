package engine

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// image puts an image of the test agent on the shelf.
func (b *workbench) image(agent, version, what string, change ...func(*imagev1.Manifest)) *imagev1.Manifest {
	b.t.Helper()
	run := &imagev1.Run{
		Command: "bin/agent", Args: []string{what}, Env: map[string]string{"WHERE": "${state}"}, StopTimeoutMs: 2000,
		Ready: &imagev1.Ready{Probe: &imagev1.Ready_Notify{Notify: true}, TimeoutMs: readyWithin, SoakMs: 50},
	}
	i := packed(b.t, agent, version)
	i.Manifest.Run = run
	for _, f := range change {
		f(i.Manifest)
	}
	i.Manifest.Id = manifest.ID(i.Manifest)
	never := slices.Contains([]string{"mute", "plain", "script"}, what)
	if ready := i.Manifest.GetRun().GetReady(); !never && ready.GetNotify() && ready.TimeoutMs == readyWithin {
		ready.TimeoutMs = 60_000 // it says so or ends, however slow the machine is
	}
	if err := i.Store(b.shelf); err != nil {
		b.t.Fatal(err)
	}
	return i.Manifest
}

// packed returns an image of the test agent, packed once for all tests.
func packed(t *testing.T, agent, version string) imagetest.Image {
	packing.Lock()
	defer packing.Unlock()
	i, ok := packs[agent+" "+version]
	if !ok {
		i = imagetest.New(
			t,
			agent,
			version,
			nil,
			imagetest.Regular("bin/agent", 0o755, agentBinary),
			imagetest.Regular("VERSION", 0o644, []byte(version)),
			imagetest.Regular("etc/agent.conf", 0o644,
				[]byte("level = {{.metadata.level}}\nof = {{.agent}} {{.version}}\n")),
			imagetest.Regular("etc/broken.conf", 0o644, []byte("{{if}}")),
			imagetest.Regular("bin/lost", 0o755, []byte("#!/nowhere/sh\n")),
			imagetest.Regular("bin/script", 0o755, []byte("#!/bin/sh\nexec sleep 600\n")),
		)
		packs[agent+" "+version] = i
	}
	i.Manifest = proto.Clone(i.Manifest).(*imagev1.Manifest)
	return i
}

func kind(k agentv1.Kind) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) {
		if m.Kind = k; k == agentv1.Kind_KIND_FILES {
			m.Run.Command = ""
		}
	}
}

func overlap(m *imagev1.Manifest) { m.Run.Takeover = imagev1.Takeover_TAKEOVER_OVERLAP }

// configured adds a configuration to an image, and how its process reloads it.
func configured(reload imagev1.Reload) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) {
		m.Run.Args = []string{"configured", "${config}/agent.conf"}
		m.Run.Configs = []*imagev1.Config{{Template: "etc/agent.conf", Path: "agent.conf"}}
		m.Run.Reload = reload
	}
}
