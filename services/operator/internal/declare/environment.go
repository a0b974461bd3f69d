package declare

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/ident"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// The keys of an environment that say what runs on its servers, and in which waves it comes there.
const (
	wantedKey  = "wanted"
	rolloutKey = "rollout"
)

// Wanted is which images of agents the servers of an environment have.
type Wanted struct {
	Environment string
	Agents      []WantedAgent       // by name
	Strategy    *rolloutv1.Strategy // nil means that of a rollout without flags
	At          Position
}

// WantedAgent is an agent that every server of the environment has.
type WantedAgent struct {
	Agent string
	Image *intentv1.ImageChoice
}

// wanted reads what an environment wants: a version, or an image by version, id or channel, by agent.
func (r *reader) wanted(environment string, wanted, rollout *yaml.Node) error {
	if wanted == nil {
		if rollout != nil {
			return r.wrong(rollout, "environment %q has the key %s, and no key %s that it is for", environment,
				rolloutKey, wantedKey)
		}
		return nil
	}
	w := Wanted{Environment: environment, At: Position{r.file, wanted.Line}}
	what := "environment " + environment + " "
	err := r.pairs(wanted, what+wantedKey, func(key, value *yaml.Node) error {
		if err := ident.CheckName("agent", key.Value); err != nil {
			return r.wrong(key, "%v", err)
		}
		choice := &intentv1.ImageChoice{}
		w.Agents = append(w.Agents, WantedAgent{key.Value, choice})
		if value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			choice.By = &intentv1.ImageChoice_Version{Version: value.Value}
			return nil
		}
		err := r.nested(value, what+wantedKey+"."+key.Value, choice.ProtoReflect())
		if err == nil && choice.By == nil {
			return r.wrong(key, "%s%s.%s names no image. Write a version, such as %s: 1.6.0, or {channel: stable}",
				what, wantedKey, key.Value, key.Value)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(w.Agents) == 0 {
		return r.wrong(wanted, "%s%s names no agent", what, wantedKey)
	}
	slices.SortFunc(w.Agents, func(a, b WantedAgent) int { return cmp.Compare(a.Agent, b.Agent) })
	if rollout != nil {
		w.Strategy = &rolloutv1.Strategy{}
		if err := r.nested(rollout, what+rolloutKey, w.Strategy.ProtoReflect()); err != nil {
			return err
		}
	}
	r.set.Wanted = append(r.set.Wanted, w)
	return nil
}

// addWanted adds what an environment wants to its node.
func addWanted(to *yaml.Node, environment string, all []Wanted) error {
	for _, w := range all {
		if w.Environment != environment {
			continue
		}
		agents := mapping()
		for _, a := range w.Agents {
			n, err := imageNode(a.Image.ProtoReflect())
			if err != nil {
				return err
			}
			add(agents, a.Agent, n)
		}
		add(to, wantedKey, agents)
	}
	return nil
}

// imageNode returns a version as text, and any other choice as a mapping.
func imageNode(choice protoreflect.Message) (*yaml.Node, error) {
	if v := choice.Interface().(*intentv1.ImageChoice).GetVersion(); v != "" {
		return text(v), nil
	}
	return messageNode(choice, fieldsOf(choice))
}

// DefaultName returns the name of the object that is a default of an environment.
func DefaultName(environment, agent string) string { return environment + "/" + agent }

// DefaultOf returns the environment and the agent of a default.
func DefaultOf(name string) (environment, agent string) {
	environment, agent, _ = strings.Cut(name, "/")
	return environment, agent
}

// environment reads an environment: its own fields, its defaults as objects of their own, and what it wants.
func (r *reader) environment(o *Object, n *yaml.Node) error {
	own := *n
	own.Content = nil
	var wanted, rollout *yaml.Node
	err := r.pairs(n, o.Kind.Word+" "+strconv.Quote(o.Name), func(key, value *yaml.Node) error {
		switch key.Value {
		case Defaults.Section:
			return r.defaults(o.Name, value)
		case wantedKey:
			wanted = value
		case rolloutKey:
			rollout = value
		default:
			own.Content = append(own.Content, key, value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.wanted(o.Name, wanted, rollout); err != nil {
		return err
	}
	return r.object(o, &own)
}

// defaults reads the defaults of an environment, by agent.
func (r *reader) defaults(environment string, n *yaml.Node) error {
	if n.Tag == "!!null" {
		return nil
	}
	return r.pairs(n, "defaults of environment "+environment, func(key, value *yaml.Node) error {
		if err := ident.CheckName("agent", key.Value); err != nil {
			return r.wrong(key, "%v", err)
		}
		o := r.add(Defaults, DefaultName(environment, key.Value), key)
		if value.Tag == "!!null" {
			return nil
		}
		return r.object(o, value)
	})
}

// environmentNode adds the defaults of an environment to its node. The objects are sorted by name.
func environmentNode(to *yaml.Node, environment string, sorted []*Object) error {
	defaults := mapping()
	for _, o := range sorted {
		of, agent := DefaultOf(o.Name)
		if o.Kind != Defaults || of != environment {
			continue
		}
		n, err := messageNode(o.Record.ProtoReflect(), o.Kind.fields())
		if err != nil {
			return err
		}
		add(defaults, agent, n)
	}
	if len(defaults.Content) > 0 {
		add(to, Defaults.Section, defaults)
	}
	return nil
}
