package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/code"
)

// badVersion is a build that exits at once.
const badVersion = "9.0.0"

// rollout brings a bad build in waves, which halts on one server.
func (s *show) rollout(ctx context.Context) error {
	s.title("Roll out a build that does not start: one server first. The rollout halts, and that server goes back.")
	if err := s.importBad(ctx); err != nil {
		return err
	}
	args := []string{
		"rollout", "start", s.agent.name + "@" + badVersion, "--on", "all", "--canaries", "1", "--waves", "50%",
		"--yes",
	}
	_, err := s.cli(ctx, args...)
	halted, ok := errors.AsType[*fleet.CLIError](err)
	if !ok || !strings.Contains(halted.Stderr, code.TooManyBroken) {
		return fmt.Errorf("want a rollout that halts, have: %w", errors.Join(err, errors.New("it did not halt")))
	}
	say("(exit code %d)", halted.Code)
	if err := s.expectVersion(ctx, s.agent.versions[1]); err != nil {
		return err
	}
	id := regexp.MustCompile(`rollout abort ([0-9a-f-]{36})`).FindStringSubmatch(halted.Stderr)
	if id == nil {
		return fmt.Errorf("the CLI does not say how to end the rollout: %s", halted.Stderr)
	}
	if _, err := s.cli(ctx, "rollout", "abort", id[1], "-m", "a bad build"); err != nil {
		return err
	}
	return s.rolloutUndone(ctx)
}

// rolloutUndone brings the first version in waves, and undoes that in waves.
func (s *show) rolloutUndone(ctx context.Context) error {
	s.title("Roll out version %s in waves, and undo the rollout: each server goes back to what it had.",
		s.agent.versions[0])
	first := s.agent.name + "@" + s.agent.versions[0]
	if _, err := s.cli(ctx, "rollout", "start", first, "--on", "all", "--waves", "1", "--yes"); err != nil {
		return err
	}
	if err := s.expectVersion(ctx, s.agent.versions[0]); err != nil {
		return err
	}
	id, err := s.fleet.CLI(ctx, "rollout", "list", "--state", "succeeded", "-o", "name")
	if err != nil {
		return err
	}
	if _, err := s.cli(ctx, "rollout", "undo", strings.TrimSpace(id), "--yes"); err != nil {
		return err
	}
	return s.expectVersion(ctx, s.agent.versions[1])
}

// importBad builds and imports an image whose program exits with an error.
func (s *show) importBad(ctx context.Context) error {
	dir := filepath.Join(s.fleet.Dir, s.agent.name+"-"+badVersion)
	recipe := "agent: " + s.agent.name + "\nversion: " + badVersion + "\nkind: daemon\nrun:\n  command: start\n" +
		"  ready: {notify: true, timeout: 5s}\n  stop_timeout: 2s\n"
	program := filepath.Join(s.fleet.Dir, "bad")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho this build is broken >&2\nexit 3\n"), 0o700); err != nil {
		return err
	}
	if err := sample.Fill(dir, program, "start", recipe); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "image", "build", filepath.Base(dir), "-o", filepath.Base(dir)+".gimg"); err != nil {
		return err
	}
	_, err := s.cli(ctx, "image", "import", filepath.Base(dir)+".gimg", "--activate")
	return err
}
