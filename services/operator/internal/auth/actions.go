package auth

import (
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// action is something that a person can ask for on the bus: a method of a service, or an intent.
type action struct {
	Verb    string `json:"verb"`
	Noun    string `json:"noun,omitempty"`
	Service string `json:"service"`
	Method  string `json:"method,omitempty"` // empty for an intent
	Access  string `json:"access"`
	Allowed bool   `json:"allowed"`

	subject func(actor string) string
}

// intentVerbs are the verbs of intents, with the words by which commands name them.
var intentVerbs = []string{
	topology.VerbInstall, topology.VerbUpgrade, topology.VerbConfigure, topology.VerbRemove, topology.VerbUndo,
	topology.VerbAdopt, topology.VerbRefresh, topology.VerbReinstall, topology.VerbDecommission, topology.VerbRelease,
	topology.VerbRollout,
}

// actions returns everything that can be asked for, from the contract itself: the methods of the services, and the
// intents.
func actions() []action {
	var out []action
	for _, verb := range intentVerbs {
		out = append(out, action{
			Verb: verb, Service: "intents", Access: "write",
			subject: func(actor string) string { return topology.IntentSubject(verb, actor, ident.New()) },
		})
	}
	for service, d := range client.Services {
		for i := range d.Methods().Len() {
			out = append(out, methodOf(service, d.Methods().Get(i)))
		}
	}
	slices.SortStableFunc(out, func(a, b action) int {
		return strings.Compare(a.Noun+" "+a.Verb+" "+a.Service, b.Noun+" "+b.Verb+" "+b.Service)
	})
	return out
}

func methodOf(service string, d protoreflect.MethodDescriptor) action {
	verb, noun := wordsOf(string(d.Name()))
	return action{
		Verb: verb, Noun: noun, Service: service, Method: string(d.Name()), Access: bus.AccessOf(d),
		subject: func(actor string) string { return bus.CallSubject(service, d, actor) },
	}
}

// intentNoun returns the noun with which people name an intent, whose command has a verb alone or another name.
func intentNoun(verb string) string {
	switch verb {
	case topology.VerbDecommission:
		return "server"
	case topology.VerbRollout:
		return "rollout"
	}
	return "agent"
}

// verbs are the commands' words for the first words of methods.
var verbs = map[string]string{
	"get": "show", "change": "update", "invite": "enroll", "open": "read",
}

// wordsOf splits the name of a method into the verb and the noun of the command that calls it: ListServers into list
// and server.
func wordsOf(method string) (verb, noun string) {
	var b strings.Builder
	for i, r := range method {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	verb, noun, _ = strings.Cut(b.String(), " ")
	if known := verbs[verb]; known != "" {
		verb = known
	}
	return verb, singular(strings.ReplaceAll(noun, " ", "-"))
}

// nouns are the commands' words for nouns of methods.
var nouns = map[string]string{"environment": "env", "application": "app",
	"label-rule": "labelrule", "advisorie": "advisory"}

func singular(noun string) string {
	if !strings.HasSuffix(noun, "us") && !strings.HasSuffix(noun, "ss") { // bus, status, access, progress
		noun = strings.TrimSuffix(noun, "s")
	}
	if known := nouns[noun]; known != "" {
		return known
	}
	return noun
}
