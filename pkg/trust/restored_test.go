package trust_test

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestARestoreKeepsOutWhomThePresentAuthorityRefuses(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now().UTC().Truncate(time.Second)
	refused(t, dir) // makes the authority
	present, issuer := accessOf(t, dir)
	key, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Revoke(topology.AccountNodes, []string{key}); err != nil {
		t.Fatal(err)
	}
	backup := now.Add(-time.Hour)
	if n, err := trust.RecordRestore(dir, present, backup, now); n != 1 || err != nil {
		t.Fatalf("%d keys stay refused, %v", n, err)
	}
	again, err := trust.OpenIssuer(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := again.Restored()
	if err != nil || !r.Adopted || r.Confirmed || !r.BackupAt.Equal(backup) ||
		!slices.Equal(r.Refused[topology.AccountNodes], []string{key}) {
		t.Errorf("recorded %+v, %v", r, err)
	}
	for at, want := range map[time.Time]bool{now.Add(time.Second): false, now: true} {
		if have, err := again.ConfirmRestored(at); have != want || err != nil {
			t.Errorf("the confirmation of %v: %v, %v", at, have, err)
		}
	}
	// A later restore, of a backup that has this record, without a present directory.
	if _, err := trust.RecordRestore(dir, "", now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r, err = again.Restored(); err != nil || r.Adopted || r.Confirmed || len(r.Refused[topology.AccountNodes]) != 1 {
		t.Errorf("after another restore: %+v, %v", r, err)
	}
	other := t.TempDir()
	refused(t, other)
	if _, err := trust.RecordRestore(dir, other, now, now); err == nil {
		t.Error("the authority of another Garrison is taken")
	}
}
