package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// benchVariable names a directory of programs, where they cannot be built.
const benchVariable = "GARRISON_TEST_BENCH"

// selfProgram is testdata/self, built once.
var selfProgram = sync.OnceValues(func() ([]byte, error) {
	if bench := os.Getenv(benchVariable); bench != "" {
		return os.ReadFile(filepath.Join(bench, "self"))
	}
	dir, err := os.MkdirTemp("", "self-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "executor"), "./testdata/self")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "executor"))
})

// trait is what is special about a version, as testdata/self reads it.
type trait struct {
	Version, Crash, Hang, NoBus string
	Late, NoRead                bool
}

// publish stores an image on the bus, once.
func (b *box) publish(m imagetest.Image) *imagev1.Manifest {
	b.t.Helper()
	give(b.t, b.catalog, m)
	return m.Manifest
}

// brings returns the image of an executor.
func (b *box) brings(tr trait) *imagev1.Manifest {
	b.t.Helper()
	if m := b.images[tr.Version]; m != nil {
		return m
	}
	program, err := selfProgram()
	if err != nil {
		b.t.Fatal(err)
	}
	timeout := uint32(30_000)
	if tr.Hang != "" || tr.NoBus != "" {
		timeout = 1000
	}
	return b.bringsProgram(tr, program, timeout)
}

// bringsProgram returns the image of an executor that is another program.
func (b *box) bringsProgram(tr trait, program []byte, timeout uint32) *imagev1.Manifest {
	b.t.Helper()
	data, err := json.Marshal(tr)
	if err != nil {
		b.t.Fatal(err)
	}
	i := imagetest.New(b.t, "executor", tr.Version, &imagev1.Run{
		Command: "bin/executor", Ready: &imagev1.Ready{TimeoutMs: timeout, SoakMs: 100},
	}, imagetest.Regular("bin/executor", 0o755, program), imagetest.Regular("bin/trait.json", 0o644, data))
	i.Manifest.Kind = agentv1.Kind_KIND_SELF
	b.images[tr.Version] = b.publish(i)
	return i.Manifest
}

// agentImage is an agent that must not be touched by anything that happens here.
func (b *box) agentImage() *imagev1.Manifest {
	return b.publish(
		imagetest.New(b.t, "sleeper", "1.0.0", &imagev1.Run{Command: "sleeper", Ready: &imagev1.Ready{SoakMs: 10}},
			imagetest.Regular("sleeper", 0o755, []byte("#!/bin/sh\nexec sleep 100000\n"))),
	)
}
