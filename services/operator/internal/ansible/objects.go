package ansible

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// Options say how an inventory is turned into objects.
type Options struct {
	Owner        string
	File         string   // of the inventory, for messages
	Environment  string   // of all hosts; empty means none
	Environments []string // groups that become environments
	Variables    []string // that become labels
}

// Objects returns the servers and environments that an inventory declares, and what is left out.
func (i *Inventory) Objects(o Options) (*declare.Set, []declare.Skipped, error) {
	for _, name := range o.Environments {
		if i.groups[name] == nil {
			return nil, nil, refuse("%s has no group %q", o.File, name)
		}
		if err := ident.CheckName("environment", name); err != nil {
			return nil, nil, err
		}
	}
	hosts, err := i.Hosts()
	if err != nil {
		return nil, nil, err
	}
	c := &convert{options: o, set: &declare.Set{Owner: o.Owner}}
	used := map[string]bool{}
	for _, h := range hosts {
		if env, ok := c.host(h); ok && env != "" {
			used[env] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		c.add(declare.NewObject(declare.Environments, name, &environmentv1.Environment{}, o.File))
	}
	return c.set, c.skipped, nil
}

// Notes returns what may be a mistake although it is accepted: a host of a group that has the name of another one, as
// when the group before it was put in brackets by mistake.
func (i *Inventory) Notes() (out []declare.Shown) {
	hosts, err := i.Hosts()
	if err != nil {
		return nil // Objects returns the error
	}
	for _, h := range hosts {
		if i.groups[h.Name] == nil || slices.Contains(h.Groups, h.Name) {
			continue
		}
		out = append(out, declare.Shown{
			Action: "note", Kind: declare.Servers.Word, Name: h.Name,
			Note: fmt.Sprintf("it is a host of %s, and a group has this name too; where the group is meant, list it "+
				"below [PARENT:children], and all names there without brackets", strings.Join(h.Groups, ", ")),
		})
	}
	return out
}

type convert struct {
	options Options
	set     *declare.Set
	skipped []declare.Skipped
}

func (c *convert) add(o *declare.Object) { c.set.Objects = append(c.set.Objects, o) }

func (c *convert) skip(name, format string, args ...any) {
	c.skipped = append(c.skipped, declare.Skipped{
		Kind: declare.Servers.Word, Name: name, Reason: fmt.Sprintf(format, args...),
	})
}

// host declares a host as a server, and returns its environment.
func (c *convert) host(h Host) (environment string, ok bool) {
	if isIPv6(h.Name) {
		c.skip(h.Name, "a server has a name, and no IPv6 address; write a name here, and the address as ansible_host")
		return "", false
	}
	if err := ident.CheckHostname("server", h.Name); err != nil {
		c.skip(h.Name, "%v", err)
		return "", false
	}
	environment = c.options.Environment
	for _, g := range c.options.Environments {
		if !slices.Contains(h.Groups, g) {
			continue
		}
		if environment != "" && environment != c.options.Environment {
			c.skip(h.Name, "it is in the groups %s and %s, and a server is in one environment", environment, g)
			return "", false
		}
		environment = g
	}
	s := &serverv1.Server{Environment: environment, Labels: map[string]string{}}
	for _, g := range h.Groups {
		if !slices.Contains(c.options.Environments, g) {
			c.label(h.Name, s, "group."+g, "true")
		}
	}
	for _, name := range c.options.Variables {
		if v, has := h.Vars[name]; has {
			c.label(h.Name, s, name, v)
		}
	}
	c.add(declare.NewObject(declare.Servers, h.Name, s, c.options.File))
	return environment, true
}

// The limits of a label.
const (
	maxLabel      = 63
	maxLabelValue = 255
)

// label sets a label of a server, or says why it cannot have it.
func (c *convert) label(host string, s *serverv1.Server, name, value string) {
	err := ident.CheckHostname("label", name)
	switch {
	case err != nil || len(name) > maxLabel:
		c.skip(host, "label %s: want 1 to %d letters, digits, inner dashes, underscores and dots", name, maxLabel)
	case value == "":
		c.skip(host, "label %s: the variable is not a single value in clear", name)
	case len(value) > maxLabelValue || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.skip(host, "label %s: its value is not printable, or longer than %d bytes", name, maxLabelValue)
	default:
		s.Labels[name] = value
	}
}
