package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/apply"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

// kinds are what a source may declare.
var kinds = []*declare.Kind{declare.Applications, declare.Agents, declare.Environments, declare.Defaults}

// declared returns the agents of images, those that they depend on, their applications and their defaults, as YAML.
func declared(ctx context.Context, env *cli.Env, images []listed) (string, error) {
	live, err := inventory.Read(ctx, env, kinds...)
	if err != nil {
		return "", err
	}
	wanted := map[string]bool{}
	for _, l := range images {
		addAgent(live, l.GetAgent(), wanted)
	}
	set := &declare.Set{}
	for _, o := range declare.Objects(live) {
		if belongs(live, o, wanted) {
			unseal(env, o)
			set.Objects = append(set.Objects, o)
		}
	}
	text, err := declare.Write(set)
	return string(text), err
}

// addAgent adds an agent and those that it depends on.
func addAgent(live declare.Live, name string, to map[string]bool) {
	a, ok := live[declare.Agents][name].(*agentv1.Agent)
	if !ok || to[name] {
		return
	}
	to[name] = true
	for _, needed := range a.GetDependencies() {
		addAgent(live, needed, to)
	}
}

// belongs reports whether an object is an agent, its application, its default, or an environment that has one. Of the
// environment nothing is declared but that it exists.
func belongs(live declare.Live, o *declare.Object, agents map[string]bool) bool {
	switch o.Kind {
	case declare.Agents:
		return agents[o.Name]
	case declare.Applications:
		for name := range agents {
			if live[declare.Agents][name].(*agentv1.Agent).GetApplication() == o.Name {
				return true
			}
		}
	case declare.Defaults:
		_, agent := declare.DefaultOf(o.Name)
		return agents[agent]
	case declare.Environments:
		o.Record = &environmentv1.Environment{Name: o.Name}
		for name := range live[declare.Defaults] {
			if of, agent := declare.DefaultOf(name); of == o.Name && agents[agent] {
				return true
			}
		}
	}
	return false
}

// unseal leaves secrets out: only the control plane that sealed them can open them.
func unseal(env *cli.Env, o *declare.Object) {
	var m map[string]string
	switch record := o.Record.(type) {
	case *agentv1.Agent:
		m = record.GetMetadata()
	case *applicationv1.Application:
		m = record.GetMetadata()
	case *environmentv1.Default:
		m = record.GetMetadata()
	}
	maps.DeleteFunc(m, func(key, value string) bool {
		if secret.IsSealed(value) {
			env.Say("note: secret %s of %s %s is left out: set it where the source is imported", key, o.Kind.Word,
				o.Name)
		}
		return secret.IsSealed(value)
	})
}

// syncAgents imports images, and then brings agents to what the source declares: a default may have an image installed.
func (s *session) syncAgents(ctx context.Context, env *cli.Env, into string, asking apply.Asking) error {
	if s.index.GetDeclared() == "" {
		return fault.Refusef(fault.NotFound, code.NotFound, "source %s declares no agents", s.source.GetName()).
			Try("where it is published: garrison source publish DIR --agents --key FILE")
	}
	set, err := s.set()
	if err != nil {
		return err
	}
	if asking.DryRun {
		err = s.declare(ctx, env, set, asking)
		return errors.Join(err, s.sync(ctx, env, into))
	}
	images := s.sync(ctx, env, into)
	if images != nil && cli.CodeOf(images) != cli.ExitPartly {
		return images
	}
	if err := s.declare(ctx, env, set, asking); err != nil {
		return err
	}
	return images
}

// set returns what a source declares. It refuses anything but agents, applications, defaults, and the names of
// environments: the key of a source must not move servers or begin a rollout.
func (s *session) set() (*declare.Set, error) {
	name := "source " + s.source.GetName()
	set, err := declare.Read([]declare.File{{Name: name, Data: []byte(s.index.GetDeclared())}})
	if err != nil {
		return nil, err
	}
	for _, o := range set.Objects {
		if !slices.Contains(kinds, o.Kind) || o.Kind == declare.Environments && len(o.Paths) > 0 {
			return nil, unusable("%s declares %s %.80q, which no source may", name, o.Kind.Word, o.Name)
		}
	}
	if len(set.Wanted) > 0 {
		return nil, unusable("%s declares versions of environment %.80q, which no source may", name,
			set.Wanted[0].Environment)
	}
	// The name of an owner has 63 letters at most.
	set.Owner = strings.TrimRight(fmt.Sprintf("source-%.56s", s.source.GetName()), "-_")
	return set, nil
}

// declare brings the inventory to what a source declares, as an apply of a file of its own owner.
func (s *session) declare(ctx context.Context, env *cli.Env, set *declare.Set, asking apply.Asking) error {
	plan, err := apply.Compare(ctx, env, set, declare.Options{})
	if err != nil {
		return err
	}
	return apply.Run(ctx, env, plan, inventory.Invitations{}, asking, "--invite DIR")
}
