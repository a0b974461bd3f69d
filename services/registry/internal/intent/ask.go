package intent

import (
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Reader is what a decision looks at.
type Reader interface {
	selector.Reader
	image.Reader
	Agent(name string) (*agentv1.Agent, bool)
	AgentNames() iter.Seq[string]
	Application(name string) (*applicationv1.Application, bool)
	Environment(name string) (*environmentv1.Environment, bool)
	Instance(server, agent string) (*instancev1.Instance, bool)
	InstancesOf(server string) iter.Seq[*instancev1.Instance]
	InstancesOfAgent(agent string) iter.Seq[*instancev1.Instance]
	Sequence(noun ledger.Noun, key string) uint64
}

// Ask is an intent as it arrived.
type Ask struct {
	ID, Actor, Verb string           // as the subject says, which the bus checked
	Intent          *intentv1.Intent // nil when the body could not be read
	Unreadable      string           // why not
	Unknown         string           // fields and enum values of it that are not known here
	At              time.Time
	Trace           string
	Again           bool // it may have been begun before; see guarantee 3
}

// Decision is what becomes of an intent.
type Decision struct {
	Drafts  []ledger.Draft // in order; the last is the answer
	Changed uint32         // how many servers change
	Refusal *apiv1.Refusal // nil when it is accepted
}

// Decide decides an intent.
func Decide(r Reader, a Ask) Decision {
	o := &outcome{ask: a, reader: r}
	refusal := malformed(a)
	if refusal == nil {
		refusal = o.decide()
	}
	if refusal != nil && a.Again && o.begun() {
		refusal = nil // part of it is in the ledger, so it holds
	}
	if refusal != nil {
		refusal.Component = ledger.Registry
		return Decision{Drafts: []ledger.Draft{o.refused(refusal)}, Refusal: refusal}
	}
	return Decision{Drafts: o.accepted(), Changed: uint32(len(o.changed))}
}

func (o *outcome) decide() *apiv1.Refusal {
	switch ask := o.ask.Intent.Ask.(type) {
	case *intentv1.Intent_Install:
		return o.install(ask.Install)
	case *intentv1.Intent_Upgrade:
		return o.upgrade(ask.Upgrade)
	case *intentv1.Intent_Remove:
		return o.remove(ask.Remove)
	case *intentv1.Intent_Refresh:
		return o.refresh(ask.Refresh)
	case *intentv1.Intent_Decommission:
		return o.decommission(ask.Decommission)
	case *intentv1.Intent_Configure:
		return o.configure(ask.Configure)
	}
	return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent asks for nothing"}
}

// malformed refuses what cannot be read, or says something else than its subject.
func malformed(a Ask) *apiv1.Refusal {
	if a.Unknown != "" {
		return &apiv1.Refusal{Code: "UNKNOWN_FIELD", Message: "the intent holds " + a.Unknown, Try: "garrison versions"}
	}
	if a.Intent == nil {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent cannot be read: " + a.Unreadable}
	}
	verb := verbOf(a.Intent)
	if verb == "" {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent asks for nothing"}
	}
	if verb != a.Verb {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the subject says " + a.Verb + " but the body says " + verb}
	}
	return nil
}

func verbOf(i *intentv1.Intent) string {
	switch i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return topology.VerbInstall
	case *intentv1.Intent_Upgrade:
		return topology.VerbUpgrade
	case *intentv1.Intent_Remove:
		return topology.VerbRemove
	case *intentv1.Intent_Refresh:
		return topology.VerbRefresh
	case *intentv1.Intent_Decommission:
		return topology.VerbDecommission
	case *intentv1.Intent_Configure:
		return topology.VerbConfigure
	}
	return ""
}
