package rollout

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/regular"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// mostSaved is how many servers the file of a plan lists at most: each part of a plan costs the registry a whole one.
const mostSaved = 10_000

// save writes a plan to a file: the intent with the guard, and the servers with what changes on each, so that a stale
// plan can be compared with what it would be now.
func save(ctx context.Context, env *cli.Env, file string, p *registryv1.PlanRolloutResponse) error {
	saved := &registryv1.PlanRolloutResponse{Intent: p.GetIntent()}
	if serversOf(p) <= mostSaved {
		whole, err := planned(ctx, env, cli.PageFlags{}, &registryv1.PlanRolloutRequest{Intent: p.GetIntent()})
		if err != nil {
			return err
		}
		if whole.GetRefusal() != nil { // the fleet changed since the plan was made
			return client.Refused(whole.GetRefusal())
		}
		saved.Targets = whole.GetTargets()
	}
	data, err := protojson.MarshalOptions{Multiline: true}.Marshal(saved)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if len(saved.GetTargets()) == 0 {
		env.Say("the file lists no servers, because there are more than %d: if the fleet changes, the start "+
			"prints counts alone", mostSaved)
	}
	cli.SayWritten(env, file)
	env.Say("to do exactly this: garrison rollout start --plan %s", listing.Quote(file))
	return nil
}

// load reads a plan that save wrote.
func load(file string) (*registryv1.PlanRolloutResponse, error) {
	if err := cli.CheckPath(file, "garrison rollout plan AGENT --on SELECTOR --out FILE"); err != nil {
		return nil, err
	}
	data, err := regular.ReadFile(file)
	if err != nil {
		return nil, cli.Usage("read the plan: %v", err)
	}
	p := &registryv1.PlanRolloutResponse{}
	err = protojson.Unmarshal(data, p)
	if err != nil || p.GetIntent().GetRollout() == nil || p.GetIntent().GetGuard() == nil {
		return nil, cli.Usage("%s is not a plan that garrison rollout plan --out wrote", file)
	}
	return p, nil
}

// sayMoved prints what a stale plan would do now, and on which servers something else than the file says.
func sayMoved(ctx context.Context, env *cli.Env, in *intentv1.Intent, saved []display.RolloutTarget) {
	then := in.GetGuard().GetChanged()
	in.Guard = nil
	page := cli.PageFlags{Limit: work.PlanRows}
	if len(saved) > 0 {
		page.Limit = mostSaved
	}
	now, err := planned(ctx, env, page, &registryv1.PlanRolloutRequest{Intent: in, Forecast: true})
	if err != nil || now.GetRefusal() != nil {
		return // the refusal is printed without it
	}
	env.Say("the saved plan changed %s; now:", listing.Plural(int(then), "server"))
	sayPlan(env, now)
	if len(saved) == 0 {
		return
	}
	env.Say("what differs:")
	if !cli.SayMoved(env, does(saved), does(now.GetTargets())) {
		env.Say("  the waves alone, or what the rollout ends with")
	}
}

// does returns what a plan does to its servers. The wave of a server is left out: one server more shuffles all of them.
func does(targets []display.RolloutTarget) (out []cli.Planned) {
	for _, t := range targets {
		text := display.ChangesText(t.GetTarget())
		if t.GetTarget().GetWave() == 0 {
			text += " (owed)"
		}
		out = append(out, cli.Planned{Name: t.GetServerName(), Does: text})
	}
	return out
}
