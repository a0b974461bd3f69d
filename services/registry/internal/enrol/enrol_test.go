package enrol

import (
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// end is when the token of a server ends.
var end = time.Unix(1000, 0)

func serverOf(life serverv1.Life, key string) *serverv1.Server {
	hash := sha256.Sum256([]byte("secret"))
	return &serverv1.Server{
		Id: "s", Cell: "main", Life: life, PublicKey: key, TokenSha256: hash[:], TokenExpiresAt: timestamppb.New(end),
	}
}

func TestATokenAdmitsOneKeyOnce(t *testing.T) {
	dead := serverOf(serverv1.Life_LIFE_DEAD, "")
	dead.TokenSha256 = nil
	again := func(standing serverv1.Standing) *serverv1.Server {
		s := serverOf(serverv1.Life_LIFE_ALIVE, "k")
		s.Standing, s.GuestKey = standing, "guest"
		return s
	}
	shut := serverOf(serverv1.Life_LIFE_ALIVE, "k")
	shut.Standing = serverv1.Standing_STANDING_QUARANTINED
	const quarantined, revoked = serverv1.Standing_STANDING_QUARANTINED, serverv1.Standing_STANDING_REVOKED
	linux := &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}}
	const invited, alive = serverv1.Life_LIFE_INVITED, serverv1.Life_LIFE_ALIVE
	for _, c := range []struct {
		name              string
		s                 *serverv1.Server
		cell, secret, key string
		sysinfo           *serverv1.Sysinfo
		late              time.Duration
		code              string
		fact              bool
	}{
		{"invited", serverOf(invited, ""), "main", "secret", "k", linux, -1, "", true},
		{
			"invited, at the end of the token", serverOf(invited, ""), "main", "secret", "k", linux, 0,
			"EXPIRED_TOKEN", false,
		},
		{"invited, wrong secret", serverOf(invited, ""), "main", "other", "k", linux, -1, "UNKNOWN_TOKEN", false},
		{"invited, no secret", serverOf(invited, ""), "main", "", "k", linux, -1, "UNKNOWN_TOKEN", false},
		{"invited, wrong cell", serverOf(invited, ""), "edge", "secret", "k", linux, -1, "UNKNOWN_TOKEN", false},
		{"invited, no key", serverOf(invited, ""), "main", "secret", "", linux, -1, "MALFORMED", false},
		{"invited, no platform", serverOf(invited, ""), "main", "secret", "k", nil, -1, "MALFORMED", false},
		{"enrolled, same key", serverOf(alive, "k"), "main", "secret", "k", linux, -1, "", false},
		{
			"enrolled, same key, after the end of the token", serverOf(alive, "k"), "main", "secret", "k", linux,
			9, "", false,
		},
		{"enrolled, another key", serverOf(alive, "k"), "main", "secret", "other", linux, -1, "USED_TOKEN", false},
		{"quarantined, same key", shut, "main", "secret", "k", linux, -1, "USED_TOKEN", false},
		{"invited again, another key", again(revoked), "main", "secret", "other", linux, -1, "", true},
		{"invited again, same key", again(revoked), "main", "secret", "k", linux, -1, "USED_KEY", false},
		{"invited again, late", again(revoked), "main", "secret", "other", linux, 0, "EXPIRED_TOKEN", false},
		{
			"invited again, quarantined", again(quarantined), "main", "secret", "other", linux, -1,
			"SERVER_QUARANTINED", false,
		},
		{"dead", dead, "main", "secret", "k", linux, -1, "UNKNOWN_TOKEN", false},
		{"dead, nothing said", dead, "main", "", "", linux, -1, "UNKNOWN_TOKEN", false},
		{"unknown", nil, "main", "secret", "k", linux, -1, "UNKNOWN_TOKEN", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &registryv1.EnrolRequest{ServerId: "s", Secret: c.secret, PublicKey: c.key, Sysinfo: c.sysinfo}
			d := Decide(c.s, c.cell, q, end.Add(c.late))
			if d.Refusal.GetCode() != c.code || (d.Fact != nil) != c.fact {
				t.Errorf("code %q, fact %v; want %q, %v", d.Refusal.GetCode(), d.Fact, c.code, c.fact)
			}
		})
	}
}
