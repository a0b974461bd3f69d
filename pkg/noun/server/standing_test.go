package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// play folds facts, a second apart, and returns the record after them and the time of the last.
func play(bodies ...proto.Message) (*serverv1.Server, time.Time) {
	var s *serverv1.Server
	at := time.Unix(1000, 0)
	for _, body := range bodies {
		at = at.Add(time.Second)
		s, _ = server.Apply(s, ledger.Fact{Noun: ledger.Server, Key: "s", Body: body, Actor: "ann", At: at})
	}
	return s, at
}

func TestTheBusAdmitsTheKeysThatTheFactsLeave(t *testing.T) {
	invited := &serverv1.Invited{Name: "web-1", GuestKey: "guest"}
	enrolled := &serverv1.Enrolled{PublicKey: "own"}
	quarantined, released := &serverv1.Quarantined{Reason: "odd"}, &serverv1.Released{}
	revoked, reinvited := &serverv1.Revoked{}, &serverv1.Reinvited{GuestKey: "second guest"}
	dead := &serverv1.Dead{}
	const grace = server.EnrolGrace
	for name, c := range map[string]struct {
		facts []proto.Message
		later time.Duration
		want  server.Keys
	}{
		"invited":       {[]proto.Message{invited}, 0, server.Keys{Guest: "guest"}},
		"just enrolled": {[]proto.Message{invited, enrolled}, 0, server.Keys{Guest: "guest", Own: "own"}},
		"enrolled":      {[]proto.Message{invited, enrolled}, grace, server.Keys{Own: "own"}},
		"quarantined":   {[]proto.Message{invited, enrolled, quarantined}, 0, server.Keys{}},
		"released": {
			[]proto.Message{invited, enrolled, quarantined, released}, grace, server.Keys{Own: "own"},
		},
		"revoked":            {[]proto.Message{invited, enrolled, revoked}, 0, server.Keys{}},
		"revoked for good":   {[]proto.Message{invited, enrolled, revoked, released}, 0, server.Keys{}},
		"quarantined before": {[]proto.Message{invited, enrolled, quarantined, revoked, released}, 0, server.Keys{}},
		"quarantined after":  {[]proto.Message{invited, enrolled, revoked, quarantined, released}, 0, server.Keys{}},
		"invited again": {
			[]proto.Message{invited, enrolled, revoked, reinvited}, 0, server.Keys{Guest: "second guest"},
		},
		"enrolled again": {
			[]proto.Message{invited, enrolled, revoked, reinvited, &serverv1.Enrolled{PublicKey: "next"}}, grace,
			server.Keys{Own: "next"},
		},
		"dying":         {[]proto.Message{invited, enrolled, &serverv1.Dying{}}, grace, server.Keys{Own: "own"}},
		"dead":          {[]proto.Message{invited, enrolled, dead}, 0, server.Keys{Own: "own"}},
		"dead for long": {[]proto.Message{invited, enrolled, dead}, server.FarewellPeriod, server.Keys{}},
		"dead by force": {
			[]proto.Message{invited, enrolled, &serverv1.Dead{Lost: true, Forced: true}}, 0, server.Keys{},
		},
		"dead and quarantined": {[]proto.Message{invited, enrolled, quarantined, dead}, 0, server.Keys{}},
		"dead, then revoked":   {[]proto.Message{invited, enrolled, dead, revoked}, 0, server.Keys{}},
		"uninstalled a moment ago": {
			[]proto.Message{invited, enrolled, dead, &serverv1.Uninstalled{}}, 0, server.Keys{Own: "own"},
		},
		"uninstalled": {
			[]proto.Message{invited, enrolled, dead, &serverv1.Uninstalled{}}, server.ReceiptGrace, server.Keys{},
		},
		"cleaned by an operator": {
			[]proto.Message{invited, enrolled, dead, &serverv1.Uninstalled{Via: "ssh"}}, 0, server.Keys{},
		},
		"uninstalled, then revoked": {
			[]proto.Message{invited, enrolled, dead, &serverv1.Uninstalled{}, revoked}, 0, server.Keys{},
		},
		"forgotten": {[]proto.Message{invited, &serverv1.Forgotten{}}, 0, server.Keys{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, at := play(c.facts...)
			got, until := server.Admitted(s, at.Add(c.later))
			if got != c.want {
				t.Errorf("admitted %+v, want %+v", got, c.want)
			}
			if until.IsZero() {
				until = at.Add(1000 * time.Hour)
			} else if next, _ := server.Admitted(s, until); next == got {
				t.Errorf("until %v, and after that %+v too", until, next)
			}
			if last, _ := server.Admitted(s, until.Add(-1)); last != got {
				t.Errorf("before %v already %+v", until, last)
			}
		})
	}
}

func TestAServerThatEnrolsAgainKeepsItsNameAndItsHistory(t *testing.T) {
	s, _ := play(
		&serverv1.Invited{Name: "web-1", Labels: map[string]string{"rack": "a1"}, GuestKey: "guest"},
		&serverv1.Enrolled{PublicKey: "own"},
		&serverv1.EpochRaised{Epoch: 4},
		&serverv1.Revoked{Reason: "the disk was stolen"},
	)
	if why := s.Exclusion; why.GetReason() != "the disk was stolen" || why.GetActor() != "ann" {
		t.Errorf("excluded because of %v", why)
	}
	s, _ = server.Apply(s, ledger.Fact{
		Noun: ledger.Server, Key: "s", Body: &serverv1.Reinvited{GuestKey: "next"}, At: time.Unix(2000, 0),
	})
	if !server.HasToken(s) || server.Believed(s) {
		t.Errorf("before it enrols: %v", s)
	}
	s, _ = server.Apply(s, ledger.Fact{
		Noun: ledger.Server, Key: "s", Body: &serverv1.Enrolled{PublicKey: "second"}, At: time.Unix(2001, 0),
	})
	switch {
	case s.Name != "web-1" || s.Labels["rack"] != "a1" || s.Epoch != 4:
		t.Errorf("it lost what it was: %v", s)
	case !server.Believed(s) || server.HasToken(s) || s.Exclusion != nil:
		t.Errorf("after it enrolled: %v", s)
	}
}

func TestCredentialsAreVoidOnceTheyExpireOrAreRevoked(t *testing.T) {
	expires := time.Unix(5000, 0)
	s, _ := play(&serverv1.Invited{}, &serverv1.Enrolled{PublicKey: "own", ExpiresAt: timestamppb.New(expires)})
	if server.Void(s, expires.Add(-time.Second)) || !server.Void(s, expires) {
		t.Error("void before, or not void after they expired")
	}
	server.Apply(s, ledger.Fact{
		Noun: ledger.Server, Key: "s", At: time.Unix(4000, 0),
		Body: &serverv1.CredentialsRenewed{PublicKey: "own", ExpiresAt: timestamppb.New(expires.Add(time.Hour))},
	})
	if server.Void(s, expires) {
		t.Error("void although they were renewed")
	}
	server.Apply(s, ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Revoked{}, At: time.Unix(4001, 0)})
	if !server.Void(s, time.Unix(4001, 0)) {
		t.Error("not void although they were revoked")
	}
}
