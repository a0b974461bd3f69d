package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
)

func rolloutsPage(v *visit) (*page, error) {
	q := &registryv1.ListRolloutsRequest{Page: v.part(), Agent: textOf(v.Request, "agent")}
	state, err := wordOf[rolloutv1.State](v, "state")
	if err != nil {
		return nil, err
	}
	if state != 0 {
		q.States = []rolloutv1.State{state}
	}
	r, err := client.Call[*registryv1.ListRolloutsResponse](v.Context(), v.client, q)
	if err != nil {
		return nil, err
	}
	l := display.RolloutsWaiting(func(one display.Rollout) string { return r.GetWaits()[one.GetId()].GetText() })
	link := func(one display.Rollout) string { return pathOf("rollouts", one.GetId()) }
	t := tableOf(v, l, r.GetRollouts(), links[display.Rollout]{"ID": link, "BRINGS": link})
	return &page{
		Title: "Rollouts", Command: listCommand(v, "rollout"),
		Parts: []part{{ID: "rollouts", Table: t.next(v, r.GetNextCursor())}},
	}, nil
}

// rolloutPage is a rollout: its waves, a cell for each server, and what may be done.
func rolloutPage(v *visit) (*page, error) {
	r, err := client.Call[*registryv1.GetRolloutResponse](v.Context(), v.client,
		&registryv1.GetRolloutRequest{RolloutId: v.PathValue("id"), Forecast: true})
	if err != nil {
		return nil, err
	}
	one := r.GetRollout()
	targets, err := client.Collect[*registryv1.ListRolloutTargetsResponse](v.Context(), v.client,
		&registryv1.ListRolloutTargetsRequest{RolloutId: one.GetId()}, squaresDrawn)
	if err != nil {
		return nil, err
	}
	q := &registryv1.ListRolloutTargetsRequest{RolloutId: one.GetId(), States: differing, Page: v.part()}
	differ, err := list(v, q, display.RolloutTargets, (*registryv1.ListRolloutTargetsResponse).GetTargets,
		links[display.RolloutTarget]{
			"SERVER": func(t display.RolloutTarget) string { return pathOf("servers", t.GetServerName()) },
		})
	if err != nil {
		return nil, err
	}
	p := &page{Title: display.RolloutTitle(one), Command: "garrison rollout show " + one.GetId()}
	pairs := pairsOf(v, display.RolloutPage(r), one, "BRINGS")
	for _, is := range display.RolloutPairs(listing.View{At: v.at}, r, nil) {
		value := cell{Text: wavesBar.ReplaceAllString(is[1], "")}
		if is[0] == "HISTORY" {
			value = cell{Text: "in the ledger", Link: "/console/events?noun=rollout&key=" + r.GetRollout().GetId()}
		}
		pairs = append(pairs, pair{titled(is[0]), value})
	}
	p.Parts = append(p.Parts,
		part{ID: "rollout", Pairs: pairs},
		part{
			ID: "cells", Title: "Servers, wave by wave", Cells: squaresOf(targets.GetTargets()),
			Note: drawn(len(targets.GetTargets()), targets.GetNextCursor()),
		},
		part{ID: "differ", Title: "Servers that differ", Table: differ})
	if forms := controls(v, one); len(forms) > 0 {
		p.Parts = append(p.Parts, part{ID: "controls", Title: "What you can do", Forms: forms})
	}
	return p, nil
}

// wavesBar is what a terminal draws of a wave.
var wavesBar = regexp.MustCompile(`\[[#.=> -]*\] `)

// squaresOf draws the servers of a rollout in the order of its waves.
func squaresOf(targets []*registryv1.RolloutTarget) (out []square) {
	targets = slices.Clone(targets[:min(len(targets), squaresDrawn)])
	slices.SortStableFunc(targets, func(a, b *registryv1.RolloutTarget) int {
		return cmp.Compare(a.GetTarget().GetWave()-1, b.GetTarget().GetWave()-1) // owed ones, of wave 0, are last
	})
	for _, t := range targets {
		state, wave := stateOf(t), "owed"
		if n := t.GetTarget().GetWave(); n > 0 {
			wave = fmt.Sprintf("wave %d", n)
		}
		out = append(out, square{
			Tone: string(listing.Tones[state]), Title: t.GetServerName() + ", " + wave + ": " + state,
			Link: "/console/servers/" + url.PathEscape(t.GetServerName()),
		})
	}
	return out
}

func stateOf(t *registryv1.RolloutTarget) string {
	switch {
	case t.GetTarget().GetState() == 0:
		return "planned"
	case t.GetStep() != "":
		return t.GetStep()
	}
	return listing.Word(t.GetTarget().GetState())
}

// differing are the states of servers that were not simply changed.
var differing = []rolloutv1.TargetState{
	rolloutv1.TargetState_TARGET_STATE_BROKEN, rolloutv1.TargetState_TARGET_STATE_OWED,
	rolloutv1.TargetState_TARGET_STATE_LEFT_OUT,
}

// drawn says that not every server is drawn.
func drawn(n int, more string) string {
	if more == "" {
		return ""
	}
	return fmt.Sprintf("The first %d are drawn.", n)
}

// steer returns what a person may do to a rollout. An approval is another request: it names its wave.
func steer(
	button, word, command string,
	do func(c *client.Client, ctx context.Context, id, reason string) (*rolloutv1.Rollout, error),
) act {
	return act{
		button: button, danger: word == "abort", direct: true,
		fields:  []field{needed("rollout", "Rollout", ""), reason(word)},
		command: func(is values) string { return command + is("rollout") },
		do: func(v *visit, is values) (string, error) {
			_, err := do(v.client, v.Context(), is("rollout"), is("reason"))
			return "", err
		},
	}
}

// reason is the field of why somebody does something.
func reason(of string) field {
	return field{Name: "reason", Label: "Reason to " + of, Hint: "why, in one line"}
}

// controls returns the forms for what may be done to a rollout now.
func controls(v *visit, r *rolloutv1.Rollout) (out []form) {
	add := func(names ...string) {
		for _, name := range names {
			out = append(out, acts[name].form(name, map[string]string{"rollout": r.GetId()}))
		}
	}
	need := rollout.NeedAt(r, v.at)
	if need == rollout.NeedsApprove && v.mayAnswer() {
		out = append(out, approval(r))
	}
	if !v.mayWrite() {
		return out
	}
	if need == rollout.NeedsResume {
		add("resume")
	}
	switch r.GetState() {
	case rolloutv1.State_STATE_RUNNING:
		add("pause", "abort")
	case rolloutv1.State_STATE_PAUSED, rolloutv1.State_STATE_HALTED:
		if need != rollout.NeedsResume {
			add("resume")
		}
		add("abort")
	}
	if r.GetState() != rolloutv1.State_STATE_RUNNING && rollout.Changed(r) > 0 && r.GetUndoneBy() == "" {
		out = append(out, form{
			Path: "/console/plan", Button: "Undo: show the plan", Command: "garrison undo " + r.GetId(),
			Fields: []field{{Name: "verb", Value: "undo"}, {Name: "of", Value: r.GetId()}},
		})
	}
	return out
}

// approval returns the form that approves the wave that waits now, and no other.
func approval(r *rolloutv1.Rollout) form {
	wave := rollout.Current(r)
	f := acts["approve"].form("approve", map[string]string{"rollout": r.GetId(), "wave": fmt.Sprint(wave)})
	f.Button = fmt.Sprintf("Approve wave %d of %d", wave, len(r.GetWaves()))
	return f
}
