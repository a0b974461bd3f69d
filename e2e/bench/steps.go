package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/sample"
)

// measureSteps upgrades one server many times, and splits the time as the executor
// reports it.
func measureSteps(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	// Enough versions that the server never still keeps the next one.
	rotation := []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "6.0.0"}
	var of []sample.Version
	for _, v := range rotation {
		of = append(of, quick(v))
	}
	if err := versions(ctx, w, of...); err != nil {
		return nil, err
	}
	if _, err := w.AddServer(ctx, "alpha"); err != nil {
		return nil, err
	}
	if err := waitOnline(ctx, w, 1); err != nil {
		return nil, err
	}
	if _, err := w.CLI(ctx, "install", "beacon@1.0.0", "--on", "all", "--at-once"); err != nil {
		return nil, err
	}
	took := map[string][]float64{}
	n := s.scaled(100)
	for i := range n {
		if _, err := w.CLI(ctx, "up", "beacon@"+rotation[(i+1)%len(rotation)], "--on", "all", "--yes",
			"--at-once"); err != nil {
			return nil, err
		}
		t, err := lastTask(ctx, w, sample.Agent, taskv1.State_STATE_SUCCEEDED)
		if err != nil {
			return nil, err
		}
		for _, step := range t.GetOutcome().GetSteps() {
			ms := step.GetTook().AsDuration().Seconds() * 1000
			took[stepName(step.GetStep())] = append(took[stepName(step.GetStep())], ms)
		}
	}
	var out []figure
	for step := range strings.FieldsSeq("check reserve fetch verify stage rehearse switch prove commit sweep") {
		if ms := slices.Sorted(slices.Values(took[step])); len(ms) > 0 {
			out = append(out, figure{
				"upgrade, " + step + ", ms",
				fmt.Sprintf("p50 %.1f, p99 %.1f (n=%d)", median(ms), ms[len(ms)*99/100], len(ms)),
				"",
				"",
				"",
			})
		}
	}
	return out, nil
}

func stepName(s taskv1.Step) string { return strings.ToLower(strings.TrimPrefix(s.String(), "STEP_")) }
