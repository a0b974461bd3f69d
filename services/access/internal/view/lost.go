package view

import (
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Lost returns whose keys would be admitted at a time although they are among refused, by account: those whose
// revocation the ledger lacks. It is not safe for concurrent use.
func (v *View) Lost(refused map[string][]string, at time.Time) (of []string) {
	for account, keys := range refused {
		for _, public := range keys {
			k, ok := v.keys.Get(keyOf(account, public))
			if !ok || !v.admits(public, k, at) {
				continue
			}
			for _, owner := range ownersOf(k) {
				of = append(of, v.ownerText(k.Account, owner))
			}
		}
	}
	slices.Sort(of)
	return slices.Compact(of)
}

// ownerText names the owner of a key of an account.
func (v *View) ownerText(account, owner string) string {
	if slices.Contains(topology.PeopleAccounts, account) {
		return "user " + owner
	}
	if s, ok := v.servers.Get(owner); ok {
		if s.Name != "" {
			owner = s.Name
		}
		if account == topology.AccountGuests {
			return "join token of server " + owner
		}
		return "server " + owner
	}
	return "token " + owner
}
