package topology

import (
	"cmp"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// The accounts. Streams live in CORE, whose only client is the one that provisions them. Everybody
// else has an account of its own and reaches only what Exports lists, because a reply subject is not
// checked against publish permissions: in an account of its own, a forged reply reaches no stream.
const (
	AccountSystem     = "SYS"
	AccountCore       = "CORE"
	AccountRegistry   = "REGISTRY"
	AccountCatalog    = "CATALOG"
	AccountDispatcher = "DISPATCHER"
	AccountAccess     = "ACCESS"
	AccountNodes      = "NODES"
	AccountGuests     = "GUESTS"
	AccountLobby      = "LOBBY"
	AccountOps        = "OPS"
	AccountRehearsal  = "REHEARSAL" // of the version that does not run yet
	AccountCopy       = "COPY"      // the copy of the ledger
	AccountAudit      = "AUDIT"     // who reads the copy, with any NATS client
)

// Accounts lists the accounts.
var Accounts = []string{
	AccountSystem, AccountCore, AccountRegistry, AccountCatalog, AccountDispatcher, AccountAccess, AccountNodes,
	AccountGuests, AccountLobby, AccountOps, AccountRehearsal, AccountCopy, AccountAudit,
}

// The user names of services, of provisioning and of the one that queries the bus.
const (
	UserRegistry      = ledger.Registry
	UserCatalog       = ledger.Catalog
	UserDispatcher    = ledger.Dispatcher
	UserAccess        = ledger.Access
	UserAccessSystem  = "access-system"  // the service access in SYS: changes accounts, watches and ends connections
	UserProvision     = "provision"      // declares the streams, at start; in CORE
	UserSystem        = "system"         // asks the bus how it is set up, at start; in SYS
	UserRehearsal     = "rehearsal"      // reads the ledger for a version that does not run yet
	UserProvisionCopy = "provision-copy" // declares the copy of the ledger, at start; in COPY
)

// Services lists the services. Each has an account of its own.
var Services = []string{UserRegistry, UserCatalog, UserDispatcher, UserAccess}

// Users lists every user that is not a server or a person.
var Users = append(slices.Clone(Services), UserAccessSystem, UserProvision, UserSystem, UserRehearsal,
	UserProvisionCopy)

// AccountOf returns the account of a service, or of another user of Users.
func AccountOf(user string) string {
	switch user {
	case UserRegistry:
		return AccountRegistry
	case UserCatalog:
		return AccountCatalog
	case UserDispatcher:
		return AccountDispatcher
	case UserAccess:
		return AccountAccess
	case UserProvision:
		return AccountCore
	case UserRehearsal:
		return AccountRehearsal
	case UserProvisionCopy:
		return AccountCopy
	}
	return AccountSystem
}

// The prefixes of the JetStream API: CORE's own, and those under which other accounts see what is exported to them.
const (
	CoreAPI     = "$JS.API"
	ServicesAPI = "GARRISON.SERVICES"
	NodesAPI    = "GARRISON.NODES"

	RehearsalAPI = "GARRISON.REHEARSAL"
	copyAPI      = "GARRISON.COPY"
	AuditAPI     = "$JS.audit.API" // what NATS clients call the domain audit
)

// APIOf returns the prefix under which a user of Users sees the JetStream API.
func APIOf(user string) string {
	if slices.Contains(Services, user) {
		return ServicesAPI
	}
	if user == UserRehearsal {
		return RehearsalAPI
	}
	return CoreAPI
}

// Export is a subject of one account that another one may use.
type Export struct {
	From, To string // accounts
	Subject  string // in From
	Part     string // the part of Subject that To may use; empty means all of it
	Local    string // in To; empty means the same
	Stream   bool   // messages flow out of From, rather than requests into it
	Many     bool   // a request may have several answers
	Share    bool   // From learns the address of a client that requests, see bus.AddressOf
}

// AnswerWithin is how long the bus remembers a request to another account that is not answered. It is
// longer than any service takes; what is dropped unanswered takes memory until then.
const AnswerWithin = 45 * time.Second

// Imported returns the subject that To imports, as From names it.
func (e Export) Imported() string { return cmp.Or(e.Part, e.Subject) }

// Name returns the subject as To names it.
func (e Export) Name() string { return cmp.Or(e.Local, e.Imported()) }

// longAck begins the long form of where a client acknowledges what a consumer delivered: with the domain, "_" for none,
// and the account. The domain is no wildcard: "$JS.ACK.*.*.A.B.>" means consumer A.B in the long form, and any
// consumer in the short one, in which the stream and the consumer come first.
const longAck = "$JS.ACK._.*."

// Exports lists everything that leaves or enters an account.
var Exports = slices.Concat(
	[]Export{
		call(AccountNodes, NodesAPI, "DIRECT.GET.DESIRED."+DesiredSubjects),
		{From: AccountCore, To: AccountNodes, Subject: ReportSubjects},
		{From: AccountCore, To: AccountNodes, Subject: BellSubjects, Stream: true},
		{From: AccountNodes, To: AccountRegistry, Subject: BeatSubjects, Stream: true},
		// A stream: a service answers on the subject that its caller chose, which may be the bell of another server.
		{From: AccountNodes, To: AccountCatalog, Subject: ChunkRequestSubjects, Stream: true},
		{From: AccountCatalog, To: AccountNodes, Subject: ChunkAnswerSubjects, Stream: true},
		{From: AccountRegistry, To: AccountNodes, Subject: RenewSubjects},
		{From: AccountRegistry, To: AccountGuests, Subject: EnrolSubjects, Share: true},
		{From: AccountRegistry, To: AccountLobby, Subject: KnockSubjects, Share: true},

		{From: AccountCore, To: AccountOps, Subject: IntentSubjects},
		{From: AccountCore, To: AccountOps, Subject: TailSubject, Stream: true},
		{From: AccountNodes, To: AccountOps, Subject: LiveSubjects, Stream: true},
		{From: AccountNodes, To: AccountDispatcher, Subject: LiveSubjects, Stream: true},
		{From: AccountNodes, To: AccountRegistry, Subject: LogOpenSubjects},
		{From: AccountNodes, To: AccountRegistry, Subject: AnswerSubjects},
		{From: AccountAccess, To: AccountRegistry, Subject: GoneSubjects, Stream: true},
		{From: AccountNodes, To: AccountOps, Subject: LogReadSubjects},
	},
	exportsOf(UserRegistry), exportsOf(UserCatalog), exportsOf(UserDispatcher), exportsOf(UserAccess),
	rehearsalExports(), copyExports(),
)

// rehearsalExports lists what a rehearsal may ask. In CORE, an answer could be sent to any subject there.
func rehearsalExports() []Export {
	out := []Export{
		{From: AccountCore, To: AccountRehearsal, Subject: TailSubject, Stream: true},
		calls(AccountRehearsal, RehearsalAPI, "DIRECT.GET."+Ledger),
		call(AccountRehearsal, RehearsalAPI, "STREAM.INFO."+oldDeadLetter),
	}
	for _, s := range Streams(1) {
		out = append(out, call(AccountRehearsal, RehearsalAPI, "STREAM.INFO."+s.Name))
	}
	for _, c := range AllConsumers {
		out = append(out, call(AccountRehearsal, RehearsalAPI, "CONSUMER.INFO."+c.Stream+"."+c.Durable))
	}
	return out
}

// call exports a call of the JetStream API under the other account's prefix.
func call(to, prefix, subject string) Export {
	return Export{From: AccountCore, To: to, Subject: CoreAPI + "." + subject, Local: prefix + "." + subject}
}

// calls is call for one that has several answers.
func calls(to, prefix, subject string) Export {
	e := call(to, prefix, subject)
	e.Many = true
	return e
}

// exportsOf lists what a service may use, and its methods, which people and the other services may call. A service
// writes only its own nouns and subjects. It creates no consumer: a consumer may deliver to any subject of CORE.
func exportsOf(user string) []Export {
	to := AccountOf(user)
	from := func(subject string) Export { return Export{From: AccountCore, To: to, Subject: subject} }
	out := []Export{
		{From: to, To: AccountOps, Subject: ServiceSubjects(user)},
		{From: AccountCore, To: to, Subject: TailSubject, Stream: true},
		call(to, ServicesAPI, "STREAM.INFO.LEDGER"),
		calls(to, ServicesAPI, "DIRECT.GET.LEDGER"),
		call(to, ServicesAPI, "DIRECT.GET.LEDGER."+LedgerSubjects),
	}
	for _, other := range Services {
		if other != user { // the health check
			out = append(out, Export{From: AccountOf(other), To: to, Subject: ServiceSubjects(other),
				Part: APISubject(other, "read", "about", user)})
		}
	}
	for _, n := range nouns() {
		if n.Writer() == user {
			out = append(out, from(ledger.NounSubject(n)))
		}
	}
	for _, c := range AllConsumers {
		if owner(c) == user {
			out = append(out,
				call(to, ServicesAPI, "CONSUMER.INFO."+c.Stream+"."+c.Durable),
				call(to, ServicesAPI, "CONSUMER.MSG.NEXT."+c.Stream+"."+c.Durable),
				from("$JS.ACK."+c.Stream+"."+c.Durable+".>"),
				from(longAck+c.Stream+"."+c.Durable+".>"))
		}
	}
	for _, stream := range streamsOf(user) {
		out = append(out, from(DeadLettersOf(stream)))
	}
	switch user {
	case UserRegistry:
		out = append(out, call(to, ServicesAPI, "DIRECT.GET.REPORTS."+ReportSubjects))
	case UserCatalog:
		out = append(out, from(ChunkSubjects),
			call(to, ServicesAPI, "DIRECT.GET.BLOBS."+ChunkSubjects),
			call(to, ServicesAPI, "DIRECT.GET.DESIRED."+DesiredSubjects),
			call(to, ServicesAPI, "STREAM.INFO.BLOBS"),
			call(to, ServicesAPI, "STREAM.PURGE.BLOBS"))
	case UserDispatcher:
		out = append(out, from(DesiredSubjects),
			call(to, ServicesAPI, "DIRECT.GET.DESIRED."+DesiredSubjects),
			calls(to, ServicesAPI, "DIRECT.GET.DESIRED"),
			call(to, ServicesAPI, "STREAM.INFO.DESIRED"))
	}
	return out
}

// streamsOf lists the streams from which a service consumes.
func streamsOf(user string) []string {
	var out []string
	for _, c := range AllConsumers {
		if owner(c) == user && !slices.Contains(out, c.Stream) {
			out = append(out, c.Stream)
		}
	}
	return out
}
