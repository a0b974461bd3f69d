package steps

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// unhealthyPatience bounds the wait for an old version that was unhealthy before: that it
// still is would be no news.
const unhealthyPatience = 5 * time.Second

// HealthCheck waits until the new version works and stays up.
type HealthCheck struct {
	Images    *store.Images
	Processes *agent.Processes
	Compare   Compare
}

// Do implements Step.
func (s HealthCheck) Do(ctx context.Context, r *Run) error {
	v := agent.Coming(r.Record)
	switch {
	case isKind(r.To, agentv1.Kind_KIND_FILES):
		_, err := s.Images.Whole(r.To.Digest())
		return err
	case isKind(r.To, agentv1.Kind_KIND_ONESHOT):
		if s.Compare.Idle(r.Record) {
			return nil
		}
		return s.setUp(ctx, v)
	case s.healthyAlready(ctx, r, v):
		return nil
	}
	return s.await(ctx, r, v, r.unit)
}

// setUp runs a set-up to its end.
func (s HealthCheck) setUp(ctx context.Context, v agent.Version) error {
	if err := s.Processes.RunOnce(ctx, v); err != nil {
		return refuse(code.SetupFailed, "%v", err)
	}
	return nil
}

// healthyAlready reports whether nothing changed and one probe passes.
func (s HealthCheck) healthyAlready(ctx context.Context, r *Run, v agent.Version) bool {
	if !s.Compare.Idle(r.Record) {
		return false
	}
	p, err := s.Processes.Probe(v, nil)
	return err == nil && p.Once(ctx) == nil
}

// await waits until a version's process works and stays up.
func (s HealthCheck) await(ctx context.Context, r *Run, v agent.Version, u supervise.Unit) error {
	p, err := s.probe(r, v, u)
	if err != nil {
		return err
	}
	err = healthcheck.Await(ctx, p, u.Exited())
	if err == nil && r.notify != nil {
		if err := u.SetReady(); err != nil { // it is restarted should the journal be lost
			r.Log.Warn().Err(err).Msg("readiness not written")
		}
	}
	if now := u.Status(); err != nil && ctx.Err() == nil && now.Pid == 0 && now.LastEnd != "" {
		return refuse(code.Exited, "%s ended before its health check passed: %s%s", v.Agent, now.LastEnd,
			inBackground(now.LastEnd))
	}
	return err
}

// inBackground returns what to say of a program that ended well before it was ready, as one that forks does. What it
// left is ended with it.
func inBackground(how string) string {
	if how != supervise.ExitedWell {
		return ""
	}
	return "; the command of a daemon must stay in the foreground, and what it leaves behind is ended"
}

// probe returns the health check of a version's process, with the limits that this change sets.
func (s HealthCheck) probe(r *Run, v agent.Version, u supervise.Unit) (healthcheck.Spec, error) {
	ready := u.Ready()
	if r.notify != nil {
		ready = r.notify.Ready()
	}
	p, err := s.Processes.Probe(v, ready)
	if err != nil {
		return p, err
	}
	if s.Compare.Signals(r.Record) && p.Soak != 0 {
		p.Soak = max(p.Soak, signalSoak)
	}
	isOld := r.From != nil && v.Image.GetId() == r.From.Image.GetId()
	if r.OldHealth != nil && r.Failure != nil && isOld && (p.Timeout == 0 || p.Timeout > unhealthyPatience) {
		p.Timeout = unhealthyPatience
	}
	return p, nil
}

// WhatFailed returns which probe failed or how the process ended, for a comparison with the
// old version's health.
func (s HealthCheck) WhatFailed(r *Run, why string) string {
	switch why {
	case code.Exited:
		if r.unit != nil {
			return r.unit.Status().LastEnd
		}
	case code.NotReady, code.Unstable:
		if p, err := s.Processes.Probe(agent.Coming(r.Record), nil); err == nil {
			return p.Name()
		}
	}
	return ""
}
