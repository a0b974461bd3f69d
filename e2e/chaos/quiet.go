package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// disagreements compares the registry's lists with each server. It returns nothing when
// all is quiet and equal.
func (w *World) disagreements(ctx context.Context) []string {
	servers, err := w.servers(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	instances, err := w.instances(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	open, err := w.openTasks(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, t := range open {
		out = append(out, fmt.Sprintf("task %s (%s %s) is %s", t.Id, t.Verb, t.Agent, t.State))
	}
	for _, s := range w.Servers() {
		known := servers[s.Name]
		if known.GetLife() != serverv1.Life_LIFE_ALIVE || known.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
			out = append(out,
				fmt.Sprintf("%s is %s, %s: %s", s.Name, known.GetLife(), known.GetPresence(), known.GetReason()))
			continue
		}
		out = append(out, w.compare(ctx, s, instances[s.Name])...)
	}
	return out
}

// compare compares the instances of a server with what it has.
func (w *World) compare(ctx context.Context, s *fleet.Server, instances map[string]*instancev1.Instance) []string {
	actual, err := w.inspect(ctx, s)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, agent := range []string{beacon, tuner} {
		if wrong := differs(instances[agent], actual[agent]); wrong != "" {
			out = append(
				out,
				fmt.Sprintf("%s on %s: %s (registry: %s; server: %+v)", agent, s.Name, wrong, said(instances[agent]),
					actual[agent]),
			)
		}
		delete(actual, agent)
	}
	for name := range actual {
		out = append(out, fmt.Sprintf("%s has a directory or process of %q", s.Name, name))
	}
	files, err := list(s.Root)
	if err != nil {
		return append(out, err.Error())
	}
	for _, f := range files {
		if strings.Contains(f, ".garrison-tmp") || strings.HasPrefix(f, "cache/") {
			out = append(out, fmt.Sprintf("%s has the temporary file %s", s.Name, f))
			break
		}
	}
	return out
}

func said(i *instancev1.Instance) string {
	if i == nil {
		return "none"
	}
	return fmt.Sprintf("wanted %q, observed %q, %s, %s, level %q, %s", i.Wanted.GetVersion(), i.Observed.GetVersion(),
		i.Health, i.State, i.Configuration.GetMetadata()["level"], i.Reason)
}

// differs returns what is wrong with an instance beside what the server has of it, or "".
func differs(i *instancev1.Instance, r reality) string {
	if i == nil {
		if r.Linked != "" || len(r.Processes) > 0 {
			return "it is present without an instance"
		}
		return ""
	}
	switch i.State {
	case instancev1.State_STATE_CONVERGED, instancev1.State_STATE_FAILED:
	default:
		return "it is not settled"
	}
	if i.State == instancev1.State_STATE_CONVERGED && i.Wanted.GetVersion() != i.Observed.GetVersion() {
		return "converged, and not what is wanted"
	}
	return observedDiffers(i, r)
}

// observedDiffers returns what is wrong with what an instance is observed as, or "".
func observedDiffers(i *instancev1.Instance, r reality) string {
	version, converged := i.Observed.GetVersion(), i.State == instancev1.State_STATE_CONVERGED
	switch {
	case version != r.Linked:
		return "another version is linked than listed"
	case version == "" && len(r.Processes) > 0:
		return "it is listed as absent and runs"
	case version == "":
		return ""
	case i.Health != instancev1.Health_HEALTH_GOOD:
		return "it is not healthy"
	case !slices.Equal(r.Processes, []string{version}):
		return "not exactly one process of the listed version"
	case r.Answers != version:
		return "it answers otherwise"
	case converged && i.Agent == tuner && r.Config != "level="+i.Configuration.GetMetadata()["level"]:
		return "it reads another configuration"
	}
	return ""
}
