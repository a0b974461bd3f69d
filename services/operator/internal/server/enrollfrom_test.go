package server

import (
	"strings"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func TestAListOfServersHasOneALine(t *testing.T) {
	like := &registryv1.InviteServerRequest{Environment: "prod", Labels: map[string]string{"rack": "a"}}
	list := "\xEF\xBB\xBF# the first rack\nweb-1\n\nweb-2,env=test, rack=b  tier=1 # new\r\n"
	all, err := readServers(strings.NewReader(list), like)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	if one := all[0]; one.Name != "web-1" || one.Environment != "prod" || one.Labels["rack"] != "a" {
		t.Errorf("the first: %v", one)
	}
	if two := all[1]; two.Environment != "test" || two.Labels["rack"] != "b" || two.Labels["tier"] != "1" {
		t.Errorf("the second: %v", two)
	}
}

func TestABadLineIsNamed(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "no server",
		"web-1\nweb-1":          "line 2: server web-1 is listed in line 1 too",
		"web-1 rack":            "line 1: \"rack\" is not",
		"web-1 rack=a rack=b":   "line 1: server web-1 has rack twice",
		"../web-1":              "line 1: \"../web-1\" is not the name",
		"web-1\nenv=prod web-2": "line 2: \"env=prod\" is not the name",
	} {
		if _, err := readServers(strings.NewReader(in), &registryv1.InviteServerRequest{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

func TestOneTokenIsForServersThatDifferInNameOnly(t *testing.T) {
	for list, want := range map[string]string{
		"web-1 rack=a\nweb-2 rack=a":        "",
		"web-1 rack=a\nweb-2 rack=b":        "web-1 and web-2 differ",
		"web-1 env=prod\nweb-2":             "web-1 and web-2 differ",
		"web-1\nweb-2 cell=north":           "web-1 and web-2 differ",
		"web-1\nweb-2 id=0190-not-checked1": "web-2 has an id",
	} {
		all, err := readServers(strings.NewReader(list), &registryv1.InviteServerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		q, err := pooledFor(all)
		if want == "" && (err != nil || q.Uses != 2 || q.Labels["rack"] != "a") {
			t.Errorf("%q: %v, %v", list, q, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
}
