package rig

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// program makes a program of shell commands.
func program(t *testing.T, commands string) *Process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	return &Process{Name: "member", bin: "/bin/sh", args: []string{"-c", commands}, log: log}
}

func TestAProcessThatEndsByItselfIsNamedWithTheEndOfItsLog(t *testing.T) {
	p := program(t, "seq 100; echo the disk is full >&2; exit 3")
	if err := p.EndedByItself(); err != nil {
		t.Errorf("before the start: %v", err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the process ends", func() bool { return p.EndedByItself() != nil })
	got := p.EndedByItself().Error()
	for _, want := range []string{"member", "exit status 3", "\n82\n", "\nthe disk is full"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "\n81\n") {
		t.Errorf("%q has more than the end of the log", got)
	}
}

func TestAProcessThatWasKilledDidNotEndByItself(t *testing.T) {
	p := program(t, "exec sleep 600")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.EndedByItself(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.EndedByItself(); err != nil {
		t.Errorf("after Kill: %v", err)
	}
}
