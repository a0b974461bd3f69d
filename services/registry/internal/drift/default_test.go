package drift

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestTheCureOfADefaultThatWaitsIsThatOfItsRefusalForTheServer(t *testing.T) {
	s := Situation{Server: &serverv1.Server{Name: "one", Environment: "prod", Life: serverv1.Life_LIFE_ALIVE}}
	for _, c := range []struct {
		why    *apiv1.Refusal
		cause  string
		remedy registryv1.Remedy
		cure   string
	}{
		{&apiv1.Refusal{Code: code.MissingDependency, Try: "garrison install db --on SELECTOR"},
			code.MissingDependency, person, "garrison install db --on one"},
		{&apiv1.Refusal{Code: code.WrongPlatform}, code.WrongPlatform, person, "garrison env default list prod"},
		{&apiv1.Refusal{Code: code.ServerReinstalling, Try: "garrison explain one"},
			code.ServerReinstalling, wait, "garrison explain one"},
	} {
		s.Defaults = []Default{{Agent: "web", Why: c.why}}
		d := s.ofDefault(s.Defaults[0])
		if d.Cause != c.cause || d.Remedy != c.remedy || d.Cure != c.cure || d.Agent != "web" {
			t.Errorf("%s: %v", c.why.Code, d)
		}
	}
}
