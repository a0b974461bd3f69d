package bustest

import "testing"

// ForgetRevocations restarts the bus with the accounts that the authority was opened with, as a bus that
// lost its directory of accounts.
func (g *Guarded) ForgetRevocations(t testing.TB) {
	t.Helper()
	g.Stop()
	g.options.AccountResolver = resolver(t, g.Authority)
	g.Start(t)
}
