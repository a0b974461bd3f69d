package trust

import (
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// account returns the claims of one account: its limits, exports, imports and signing keys.
func (a *Authority) account(name string) (*jwt.AccountClaims, error) {
	c := jwt.NewAccountClaims(a.Names[name])
	c.Name = name
	if name == topology.AccountCore {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	}
	if name == topology.AccountCopy {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, Streams: 1, Consumer: topology.CopyConsumers}
	}
	if name == topology.AccountLobby {
		c.Limits.Conn = topology.LobbyConnections
	}
	exported := map[string]bool{}
	for _, e := range topology.Exports {
		switch name {
		case e.From:
			if !exported[e.Subject] {
				c.Exports.Add(export(e))
			}
			exported[e.Subject] = true
		case e.To:
			c.Imports.Add(imported(e, a.Names[e.From]))
		}
	}
	for _, scope := range topology.Scopes(name) {
		if err := a.addScope(c, scope); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func export(e topology.Export) *jwt.Export {
	out := &jwt.Export{Name: e.Subject, Subject: jwt.Subject(e.Subject), Type: jwt.Service}
	switch {
	case e.Stream:
		out.Type = jwt.Stream
		return out
	case e.Many:
		out.ResponseType = jwt.ResponseTypeStream
	default:
		out.ResponseType = jwt.ResponseTypeSingleton
	}
	out.ResponseThreshold = topology.AnswerWithin
	return out
}

func imported(e topology.Export, from string) *jwt.Import {
	out := &jwt.Import{Name: e.Name(), Account: from, Subject: jwt.Subject(e.Imported()), Type: jwt.Service}
	if e.Stream {
		out.Type = jwt.Stream
	}
	out.Share = e.Share
	if e.Local != "" {
		out.LocalSubject = jwt.RenamingSubject(e.Local)
	}
	return out
}

// addScope adds a signing key whose users have the permissions of the template, and keeps its seed.
func (a *Authority) addScope(c *jwt.AccountClaims, of topology.Scope) error {
	pair, public, err := a.key(c.Name+"-"+of.Name, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = public, of.Name
	scope.Template = jwt.UserPermissionLimits{
		Permissions: permissions(of.Permissions),
		Limits: jwt.Limits{NatsLimits: jwt.NatsLimits{
			Subs: of.Subscriptions, Data: jwt.NoLimit, Payload: of.Payload,
		}},
		BearerToken: of.Open,
	}
	c.SigningKeys.AddScopedSigner(scope)
	if slices.Contains(topology.PeopleAccounts, c.Name) || of.Open {
		return nil
	}
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	return a.keepForSigner(of.Name, signingKey{Account: c.Subject, Seed: string(seed)})
}

func permissions(p topology.Permissions) jwt.Permissions {
	out := jwt.Permissions{Pub: jwt.Permission{Allow: p.Publish}, Sub: jwt.Permission{Allow: p.Subscribe}}
	if p.Answers {
		out.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: topology.AnswerWithin}
	}
	return out
}
