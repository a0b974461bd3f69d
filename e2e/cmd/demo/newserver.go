package main

import (
	"context"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/freeport"
)

// newServer adds a server to an environment with a default: one command on the server, none on the control plane.
func (s *show) newServer(ctx context.Context) error {
	s.title("Say once what every new server of an environment runs, and make one token for many servers.")
	delta, err := s.prepareNewServer(ctx)
	if err != nil {
		return err
	}
	s.title("Start a new server with an empty disk. Everything that its environment wants follows.")
	say("$ executor run --token-file garrison.token")
	started := time.Now()
	if err := delta.Executor.Start(); err != nil {
		return err
	}
	answers := func(ctx context.Context) error { _, err := s.agent.version(ctx, delta); return err }
	if err := s.wait(ctx, "the agent answers on the new server", answers); err != nil {
		return err
	}
	say("%.1f s later its agent answers over HTTP", time.Since(started).Seconds())
	version := s.agent.versions[0]
	s.servers = append(s.servers, delta)
	converged := func(ctx context.Context) error { return s.converged(ctx, version, len(s.servers)) }
	if err := s.wait(ctx, "it is converged", converged); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "instance", "list"); err != nil {
		return err
	}
	return s.expectVersion(ctx, version)
}

// prepareNewServer makes an environment with a default, a token, and a server that joins with it when it is started.
func (s *show) prepareNewServer(ctx context.Context) (*fleet.Server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	if _, err := s.cli(ctx, "env", "create", "prod"); err != nil {
		return nil, err
	}
	image := s.agent.name + "@" + s.agent.versions[0]
	if _, err := s.cli(ctx, "env", "default", "set", "prod", image, "--yes"); err != nil {
		return nil, err
	}
	token, err := s.fleet.CLI(ctx, "token", "create", "prod-servers", "--uses", "100", "--env", "prod",
		"--label", "port="+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	say("$ garrison token create prod-servers --uses 100 --env prod > garrison.token")
	return s.fleet.NewServer("delta", token, port)
}
