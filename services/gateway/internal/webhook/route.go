package webhook

import (
	"net/netip"
	"text/template"

	"github.com/garrison-fleet/garrison/pkg/client"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// The formats of a delivery.
const (
	structured = "structured"
	binary     = "binary"
)

// settings are what a file of routes holds.
type settings struct {
	as      string // the path of a context file
	console string // the address of the console, without a slash at its end; empty for none
	routes  []route
	digest  string // changes when the file does, or a CA that it names
}

// route is where some facts go.
type route struct {
	name   string
	url    string // a secret: it must not be in an error, a log or a metric
	filter client.Filter
	agent  string             // only facts about this agent
	on     *intentv1.Selector // only facts about these servers; nil means all facts

	format string
	body   *template.Template // in place of a format, or nil

	allow []netip.Prefix // the networks of its target that are refused otherwise
	ca    []byte         // the CAs of its target, in PEM; nil means those of the operating system
	from  uint64         // where a new route begins; 0 means at the end of the ledger
}

// named returns the route with a name, or nil.
func (s *settings) named(name string) *route {
	for i := range s.routes {
		if s.routes[i].name == name {
			return &s.routes[i]
		}
	}
	return nil
}
