package declare

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

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
