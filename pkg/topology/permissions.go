package topology

import (
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Permissions is what a user may publish and subscribe to, and the size of its largest message.
// Names in double braces are filled in by the server from the user's own JWT.
type Permissions struct {
	Publish, Subscribe []string
	Payload            int64 // bytes
	Answers            bool  // it may answer each request that it receives, once, within AnswerWithin
}

// The largest messages, headers included.
const (
	GuestPayload    = 32 << 10
	KnockPayload    = 16 << 10
	ReporterPayload = 512 << 10
	NodePayload     = 256<<10 + 4<<10 // a report of the largest size that the stream takes, and its headers
	DefaultPayload  = mib
)

// Inbox returns the prefix of a user's reply subjects. Permissions keep other users from subscribing to it.
func Inbox(name string) string { return "_INBOX_" + name }

// ownName stands for the user's own name in a template.
const ownName = "{{name()}}"

// itself stands for the server's own address in a template.
var itself = ServerAddress{Cell: "{{tag(cell)}}", Server: ownName}

// NodePermissions is the template for every server: its name is its UUID, its tag its cell.
var NodePermissions = Permissions{
	Publish: []string{
		NodesAPI + ".DIRECT.GET.DESIRED." + DesiredSubject(itself),
		chunkRequestsOf(itself),
		ReportSubject(itself, ReportTask),
		ReportSubject(itself, ReportAgents),
		ReportSubject(itself, ReportSysinfo),
		ReportSubject(itself, ReportReceipt),
		ReportSubject(itself, ReportCandidates),
		BeatSubject(itself),
		RenewSubject(itself),
		LiveSubject(itself, anyToken),
	},
	Subscribe: []string{
		Inbox(ownName) + ".>",
		BellSubject(itself),
		AnswerSubject(itself),
		chunkAnswersTo(itself),
		LogOpenSubject(itself),
		LogReadsOf(itself),
	},
	Payload: NodePayload,
	Answers: true,
}

// GuestPermissions is the template for a server that was invited and has no credentials yet.
var GuestPermissions = Permissions{
	Publish:   []string{EnrolSubject(itself)},
	Subscribe: []string{Inbox(ownName) + ".>"},
	Payload:   GuestPayload,
}

// Scope is a kind of users that one signing key of an account admits.
type Scope struct {
	Name string
	Permissions
	Subscriptions int64 // of one connection, at most
	Open          bool  // the login is no secret, and its key need not be proven
}

// connectionSubscriptions is how many subscriptions a connection of a server or a person has at most.
const connectionSubscriptions = 64

// Scopes returns the kinds of users of an account of servers, guests, machines in the lobby, or people.
func Scopes(account string) []Scope {
	switch account {
	case AccountNodes:
		return []Scope{scope("node", NodePermissions)}
	case AccountGuests:
		return []Scope{scope("guest", GuestPermissions)}
	case AccountLobby:
		return []Scope{{
			Name: UserLobby, Permissions: LobbyPermissions, Subscriptions: LobbySubscriptions, Open: true,
		}}
	case AccountOps, AccountAudit:
		var out []Scope
		for _, r := range Roles {
			if AccountOfRole(r) == account {
				out = append(out, scope(string(r), RolePermissions(r)))
			}
		}
		return out
	}
	return nil
}

func scope(name string, p Permissions) Scope {
	return Scope{Name: name, Permissions: p, Subscriptions: connectionSubscriptions}
}

// ServicePermissions returns what a user of Users may do: for a service, what its account imports, its
// own methods, and answers.
func ServicePermissions(user string) Permissions {
	p := Permissions{Subscribe: []string{Inbox(user) + ".>"}, Payload: DefaultPayload}
	switch user {
	case UserProvision:
		p.Publish = []string{CoreAPI + ".>", SnapshotSubjects, MovedSubjects}
		p.Subscribe = append(p.Subscribe, TailSubject)
		return p
	case UserRehearsal:
		for _, e := range rehearsalExports() {
			if e.Stream {
				p.Subscribe = append(p.Subscribe, e.Name())
			} else {
				p.Publish = append(p.Publish, e.Name())
			}
		}
		return p
	case UserSystem:
		p.Publish = []string{SystemSettings}
		return p
	case UserProvisionCopy:
		p.Publish = []string{CoreAPI + ".STREAM.*." + Copy}
		return p
	case UserAccessSystem:
		return accessSystem
	}
	account := AccountOf(user)
	p.Publish = append(p.Publish, "_R_.>", // answers to other accounts; only their callers receive them
		Inbox(user)+".>", RollCallSubject(user), APISubject(user, "read", "about", user))
	p.Subscribe = append(p.Subscribe, "$SRV.>", RollCallSubject(user))
	for _, e := range Exports {
		switch {
		case e.To == account && e.Stream:
			p.Subscribe = append(p.Subscribe, e.Name())
		case e.To == account, e.From == account && e.Stream:
			p.Publish = append(p.Publish, e.Name())
		case e.From == account && !slices.Contains(p.Subscribe, e.Subject):
			p.Subscribe = append(p.Subscribe, e.Subject)
		}
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

// Role is what a person, or a program that acts for one, may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
	Reporter Role = "reporter" // a program; it reports external instances, and can do nothing else
	Approver Role = "approver" // sees rollouts and answers their gates, and can do nothing else
	Auditor  Role = "auditor"  // a program; it reads the copy of the ledger, and can do nothing else
)

// RolePermissions returns the template of each role. The actor is a token of every
// subject, so a user cannot act under another name.
func RolePermissions(r Role) Permissions {
	switch r {
	case Reporter:
		return reporter
	case Approver:
		return approver
	case Auditor:
		return auditor()
	}
	p := Permissions{
		Publish: []string{
			APISubject(anyToken, "read", anyToken, ownName),
		},
		Subscribe: []string{Inbox(ownName) + ".>", TailSubject, LiveSubjects},
		Payload:   DefaultPayload,
	}
	if r == Operator || r == Admin {
		p.Publish = append(p.Publish, APISubject(anyToken, "write", anyToken, ownName),
			APISubject(anyToken, "answer", anyToken, ownName), IntentSubject(anyToken, ownName, anyToken),
			LogReadSubject(ServerAddress{anyToken, anyToken}, LogReader{ownName, anyToken}))
	}
	if r == Admin {
		p.Publish = append(p.Publish, APISubject(anyToken, "admin", anyToken, ownName))
	}
	return p
}

// reporter is the template of the role Reporter: reports, and the renewal of its own credentials.
var reporter = Permissions{
	Publish: []string{
		APISubject(anyToken, "report", anyToken, ownName),
		APISubject(UserAccess, "read", "renew-self", ownName),
	},
	Subscribe: []string{Inbox(ownName) + ".>"},
	Payload:   ReporterPayload,
}

// approver is the template of the role Approver: what shows rollouts, the answers to their gates, and the renewal of
// its own credentials.
var approver = Permissions{
	Publish: []string{
		APISubject(UserRegistry, "answer", "answer-rollout", ownName),
		APISubject(UserRegistry, "read", "get-rollout", ownName),
		APISubject(UserRegistry, "read", "list-rollouts", ownName),
		APISubject(UserRegistry, "read", "list-rollout-targets", ownName),
		APISubject(UserAccess, "read", "renew-self", ownName),
	},
	Subscribe: []string{Inbox(ownName) + ".>"},
	Payload:   GuestPayload,
}

// Roles lists the roles. Each of the first three is allowed all that those before it are.
var Roles = []Role{Viewer, Operator, Admin, Reporter, Approver, Auditor}

// PeopleAccounts are the accounts of people, and of programs that act for one.
var PeopleAccounts = []string{AccountOps, AccountAudit}

// AccountOfRole returns the account of the users with a role.
func AccountOfRole(r Role) string {
	if r == Auditor {
		return AccountAudit
	}
	return AccountOps
}

// UserLobby is the name of the login that every machine without a token shares. It is no secret: its permissions and
// LobbyConnections bound what can be done with it.
const UserLobby = "lobby"

// LobbyConnections is how many connections the account LOBBY has at most. A machine connects, asks, and leaves.
const LobbyConnections = 128

// LobbySubscriptions is how many subscriptions a connection in the lobby has at most: answers are sealed, and copies of
// them cost.
const LobbySubscriptions = 2

// LobbyPermissions is the template for a machine without a token.
var LobbyPermissions = Permissions{
	Publish:   []string{KnockSubjects},
	Subscribe: []string{Inbox(ownName) + ".>"},
	Payload:   KnockPayload,
}

// MayPublish reports whether the user with a name may publish on a subject, by the permissions that the bus enforces.
func (p Permissions) MayPublish(name, subject string) bool {
	for _, pattern := range p.Publish {
		if Matches(strings.ReplaceAll(pattern, ownName, name), subject) {
			return true
		}
	}
	return false
}
