package topology

// Role is what a person, or a program that acts for one, may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
	Reporter Role = "reporter" // a program; it reports external instances, and can do nothing else
	Approver Role = "approver" // sees rollouts and answers their gates, and can do nothing else
)

// RolePermissions returns the template of each role. The actor is a token of every
// subject, so a user cannot act under another name.
func RolePermissions(r Role) Permissions {
	switch r {
	case Reporter:
		return reporter
	case Approver:
		return approver
	}
	p := Permissions{
		Publish: []string{
			APISubject(anyToken, "read", anyToken, ownName),
			LogReadSubject(ServerAddress{anyToken, anyToken}, LogReader{ownName, anyToken}),
		},
		Subscribe: []string{Inbox(ownName) + ".>", TailSubject, LiveSubjects},
		Payload:   DefaultPayload,
	}
	if r == Operator || r == Admin {
		p.Publish = append(p.Publish, APISubject(anyToken, "write", anyToken, ownName),
			APISubject(anyToken, "answer", anyToken, ownName), IntentSubject(anyToken, ownName, anyToken))
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
var Roles = []Role{Viewer, Operator, Admin, Reporter, Approver}
