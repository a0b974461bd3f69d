package topology

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// The accounts. Streams and services live in CORE; servers in NODES and people in OPS
// reach a few exported subjects, because a reply subject is not checked against publish
// permissions: in an account of its own, a forged reply reaches no stream.
const (
	AccountSystem = "SYS"
	AccountCore   = "CORE"
	AccountNodes  = "NODES"
	AccountOps    = "OPS"
)

// The services' user names in CORE.
const (
	UserRegistry   = ledger.Registry
	UserCatalog    = ledger.Catalog
	UserDispatcher = ledger.Dispatcher
	UserProvision  = "provision" // declares the streams, at start
	UserSystem     = "system"    // asks the bus how it is set up, at start; in SYS
)

// Services lists the services that live in CORE.
var Services = []string{UserRegistry, UserCatalog, UserDispatcher}

// The API prefixes under which the other accounts see the JetStream calls that are exported to them.
const (
	CoreAPI  = "$JS.API"
	NodesAPI = "GARRISON.NODES"
	OpsAPI   = "GARRISON.OPS"
)

// Export is a subject of CORE that another account may use.
type Export struct {
	To      string // the account
	Subject string // in CORE
	Local   string // in the other account; empty means the same
	Stream  bool   // messages flow out of CORE, rather than requests into it
	Many    bool   // a request may have several answers
}

// Exports is everything that leaves or enters CORE.
var Exports = []Export{
	{To: AccountNodes, Subject: "$JS.API.DIRECT.GET.DESIRED.garrison.desired.*.*", Local: NodesAPI + ".DIRECT.GET.DESIRED.garrison.desired.*.*"},
	{To: AccountNodes, Subject: "$JS.API.DIRECT.GET.BLOBS.garrison.blob.*.*", Local: NodesAPI + ".DIRECT.GET.BLOBS.garrison.blob.*.*"},
	{To: AccountNodes, Subject: "garrison.report.*.*.*"},
	{To: AccountNodes, Subject: "garrison.beat.*.*"},
	{To: AccountNodes, Subject: LiveSubjects},
	{To: AccountNodes, Subject: "garrison.enrol.*.*"},
	{To: AccountNodes, Subject: "garrison.bell.*.*", Stream: true},

	{To: AccountOps, Subject: "garrison.api.*.*.*.*"},
	{To: AccountOps, Subject: "garrison.intent.*.*.*"},
	{To: AccountOps, Subject: "$JS.API.DIRECT.GET.LEDGER", Local: OpsAPI + ".DIRECT.GET.LEDGER", Many: true},
	{To: AccountOps, Subject: TailSubject, Stream: true},
	{To: AccountOps, Subject: LiveSubjects, Stream: true},
}

// Permissions is what a user may publish and subscribe to. Names in double braces are
// filled in by the server from the user's own JWT.
type Permissions struct {
	Publish, Subscribe []string
}

// Inbox is the prefix of a user's reply subjects, so that nobody can listen to another's.
func Inbox(name string) string { return "_INBOX_" + name }

// NodePermissions is the template for every server: its name is its UUID, its tag its cell.
var NodePermissions = Permissions{
	Publish: []string{
		NodesAPI + ".DIRECT.GET.DESIRED.garrison.desired.{{tag(cell)}}.{{name()}}",
		NodesAPI + ".DIRECT.GET.BLOBS.garrison.blob.*.*",
		"garrison.report.{{tag(cell)}}.{{name()}}." + ReportTask,
		"garrison.report.{{tag(cell)}}.{{name()}}." + ReportAgents,
		"garrison.report.{{tag(cell)}}.{{name()}}." + ReportSysinfo,
		"garrison.report.{{tag(cell)}}.{{name()}}." + ReportReceipt,
		"garrison.beat.{{tag(cell)}}.{{name()}}",
		"garrison.live.{{tag(cell)}}.{{name()}}.*",
	},
	Subscribe: []string{
		"_INBOX_{{name()}}.>",
		"garrison.bell.{{tag(cell)}}.{{name()}}",
	},
}

// GuestPermissions is the template for a server that was invited and has no credentials yet.
var GuestPermissions = Permissions{
	Publish:   []string{"garrison.enrol.{{tag(cell)}}.{{name()}}"},
	Subscribe: []string{"_INBOX_{{name()}}.>"},
}

// Role is what a person, or a program that acts for one, may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// RolePermissions gives the template of each role. The actor is a token of every
// subject, so nobody can act under another's name.
func RolePermissions(r Role) Permissions {
	p := Permissions{
		Publish:   []string{"garrison.api.*.read.*.{{name()}}", OpsAPI + ".DIRECT.GET.LEDGER"},
		Subscribe: []string{"_INBOX_{{name()}}.>", TailSubject, LiveSubjects},
	}
	if r == Operator || r == Admin {
		p.Publish = append(p.Publish, "garrison.api.*.write.*.{{name()}}", "garrison.intent.*.{{name()}}.*")
	}
	if r == Admin {
		p.Publish = append(p.Publish, "garrison.api.*.admin.*.{{name()}}")
	}
	return p
}

// Roles lists the roles, from the least to the most allowed.
var Roles = []Role{Viewer, Operator, Admin}

// ServicePermissions gives what a service's user in CORE may do: publish facts about
// its own nouns, and read what it needs.
func ServicePermissions(user string) Permissions {
	p := Permissions{Subscribe: []string{Inbox(user) + ".>"}}
	switch user {
	case UserProvision:
		p.Publish = []string{"$JS.API.>"}
		return p
	case UserSystem:
		p.Publish = []string{"$SYS.REQ.SERVER.PING.VARZ"}
		return p
	}
	p.Publish = []string{
		"_R_.>", // answers to the other accounts; see Exports for why they reach no stream
		"$JS.API.INFO",
		"$JS.API.STREAM.INFO.*",
		"$JS.API.DIRECT.GET.LEDGER.>", "$JS.API.DIRECT.GET.LEDGER",
		"$JS.API.CONSUMER.CREATE.LEDGER.>",
		"$JS.API.CONSUMER.DELETE.LEDGER.>",
		"$JS.API.CONSUMER.INFO.LEDGER.>",
		"$JS.API.CONSUMER.MSG.NEXT.LEDGER.>",
		"garrison.quarantine.*",
	}
	p.Subscribe = append(p.Subscribe, "$SRV.>", "garrison.api."+user+".*.*.*", TailSubject, RollCallSubject(user))
	p.Publish = append(p.Publish, RollCallSubject(user))
	for _, u := range Services {
		p.Publish = append(p.Publish, Inbox(u)+".>", APISubject(u, "read", "about", user)) // answers within CORE, and the health check
	}
	for _, n := range nouns() {
		if n.Writer() == user {
			p.Publish = append(p.Publish, ledger.NounSubject(n))
		}
	}
	for _, c := range AllConsumers {
		if owner(c) == user {
			p.Publish = append(p.Publish,
				"$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Durable,
				"$JS.API.CONSUMER.CREATE."+c.Stream+"."+c.Durable+".>",
				"$JS.API.CONSUMER.MSG.NEXT."+c.Stream+"."+c.Durable,
				"$JS.ACK."+c.Stream+"."+c.Durable+".>",
				"$JS.ACK.*.*."+c.Stream+"."+c.Durable+".>")
		}
	}
	switch user {
	case UserRegistry:
		p.Publish = append(p.Publish, "$JS.API.DIRECT.GET.REPORTS.>")
		p.Subscribe = append(p.Subscribe, "garrison.beat.*.*", "garrison.enrol.*.*")
	case UserCatalog:
		p.Publish = append(p.Publish, "garrison.blob.*.*", "$JS.API.STREAM.PURGE.BLOBS", "$JS.API.DIRECT.GET.BLOBS.>")
	case UserDispatcher:
		p.Subscribe = append(p.Subscribe, LiveSubjects)
		p.Publish = append(p.Publish, "garrison.desired.*.*", "$JS.API.DIRECT.GET.DESIRED.>", "$JS.API.DIRECT.GET.DESIRED",
			"$JS.API.CONSUMER.CREATE.DESIRED.>", "$JS.API.CONSUMER.DELETE.DESIRED.>", "$JS.API.CONSUMER.MSG.NEXT.DESIRED.>", "$JS.API.CONSUMER.INFO.DESIRED.>")
	}
	return p
}

func nouns() []ledger.Noun {
	var out []ledger.Noun
	seen := map[ledger.Noun]bool{}
	for _, k := range ledger.Kinds {
		if !seen[k.Noun] {
			seen[k.Noun] = true
			out = append(out, k.Noun)
		}
	}
	return out
}

func owner(c Consumer) string {
	if c == DispatcherTasks {
		return UserDispatcher
	}
	return UserRegistry
}
