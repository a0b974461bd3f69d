package ansible_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/ansible"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

const ini = `# hosts
mail ansible_host=10.0.0.9

[web]
web[01:03].example.com rack=a role="front end"   # three of them
web9:2222 rack='b'

[db]
db-[a:b] rack=c

[prod:children]
web
db

[prod:vars]
zone = eu-1
rack=none

[all:vars]
zone=unset
`

const yamlText = `all:
  vars: {zone: unset}
  hosts:
    mail: {ansible_host: 10.0.0.9}
  children:
    prod:
      vars: {zone: eu-1, rack: none}
      children:
        web:
          hosts:
            web[01:03].example.com: {rack: a, role: front end}
            web9:2222: {rack: b, secret: !vault "x"}
        db:
          hosts:
            db-[a:b]: {rack: c}
`

const list = `{"_meta": {"hostvars": {"mail": {"ansible_host": "10.0.0.9", "zone": "unset"},
 "web01.example.com": {"rack": "a"}, "web02.example.com": {"rack": "a"}, "web03.example.com": {"rack": "a"},
 "web9": {"rack": "b"}, "db-a": {"rack": "c"}, "db-b": {"rack": "c"}}},
 "all": {"children": ["ungrouped", "prod"]}, "ungrouped": {"hosts": ["mail"]},
 "prod": {"children": ["web", "db"], "vars": {"zone": "eu-1"}},
 "web": {"hosts": ["web01.example.com", "web02.example.com", "web03.example.com", "web9"]},
 "db": {"hosts": ["db-a", "db-b"]}}`

// labels returns the labels of each server that an inventory declares.
func labels(t *testing.T, file, text string, o ansible.Options) (map[string]map[string]string, []declare.Skipped) {
	t.Helper()
	i, err := ansible.Read(declare.File{Name: file, Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	set, skipped, err := i.Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, object := range set.Objects {
		if s, ok := object.Record.(*serverv1.Server); ok {
			out[object.Name] = s.Labels
			if s.Environment != "" {
				out[object.Name]["env"] = s.Environment
			}
		}
	}
	return out, skipped
}

func TestEveryFormOfAnInventoryDeclaresTheSame(t *testing.T) {
	web := map[string]string{"group.web": "true", "group.prod": "true", "rack": "a", "zone": "eu-1"}
	db := map[string]string{"group.db": "true", "group.prod": "true", "rack": "c", "zone": "eu-1"}
	want := map[string]map[string]string{
		"mail": {"zone": "unset"}, "db-a": db, "db-b": db,
		"web01.example.com": web, "web02.example.com": web, "web03.example.com": web,
		"web9": {"group.web": "true", "group.prod": "true", "rack": "b", "zone": "eu-1"},
	}
	for file, text := range map[string]string{
		"hosts": ini, "hosts.yaml": yamlText, "hosts.yml": yamlText, "inventory": yamlText, "list.json": list,
	} {
		got, skipped := labels(t, file, text, ansible.Options{Variables: []string{"rack", "zone"}})
		if diff := cmp.Diff(want, got); diff != "" || len(skipped) > 0 {
			t.Errorf("%s: %s\n%v", file, diff, skipped)
		}
	}
}

func TestAByteOrderMarkIsDroppedAndUTF16IsNamed(t *testing.T) {
	for _, text := range []string{ini, list} {
		if _, err := ansible.Read(declare.File{Name: "hosts", Data: []byte("\xEF\xBB\xBF" + text)}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ansible.Read(declare.File{Name: "hosts", Data: []byte("\xFF\xFE[\x00")}); err == nil ||
		!strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16: %v", err)
	}
}

func TestAnIPv6AddressIsNoNameOfAServer(t *testing.T) {
	for text, want := range map[string]string{
		"2001:db8::2": "2001:db8::2", "[2001:db8::1]:22": "2001:db8::1", "[fd00::1]": "fd00::1", "::1": "::1",
		"2001:db8:0:0:0:0:0:2": "2001:db8:0:0:0:0:0:2", "fe80::1%eth0": "fe80::1%eth0",
		"[2001:db8::[1:1]]:22": "2001:db8::1",
	} {
		for name, form := range map[string]string{"hosts": "[web]\n%s a=b\n", "h.yaml": "web: {hosts: {%q: {}}}\n"} {
			got, skipped := labels(t, name, fmt.Sprintf(form, text), ansible.Options{})
			if len(got) > 0 || len(skipped) != 1 || skipped[0].Name != want ||
				!strings.Contains(skipped[0].Reason, "ansible_host") {
				t.Errorf("%s in %s: %v, %v; want %s left out", text, name, got, skipped, want)
			}
		}
	}
}

func TestAHostWithTheNameOfAnotherGroupIsNoted(t *testing.T) {
	for text, want := range map[string]int{
		"[g1]\nh1\n[g3]\nh7\n[all:children]\n[g1]\ng3\n": 1, "[mail]\nmail\n": 0,
	} {
		i, err := ansible.Read(declare.File{Name: "hosts", Data: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		if notes := i.Notes(); len(notes) != want {
			t.Errorf("%q: %v, want %d notes", text, notes, want)
		}
	}
}

func TestAGroupMayBeAnEnvironment(t *testing.T) {
	got, _ := labels(t, "hosts", ini, ansible.Options{Environments: []string{"prod"}, Environment: "rest"})
	want := map[string]string{"group.db": "true", "env": "prod"}
	if diff := cmp.Diff(want, got["db-a"]); diff != "" || got["mail"]["env"] != "rest" {
		t.Errorf("%s\n%v", diff, got["mail"])
	}
	got, skipped := labels(t, "hosts", ini, ansible.Options{Environments: []string{"prod", "web"}})
	if _, there := got["web9"]; there || len(skipped) != 4 {
		t.Errorf("a host in two environments: %v, %v", got["web9"], skipped)
	}
}

func TestWhatCannotBeAServerOrALabelIsListed(t *testing.T) {
	text := "[a b]\n"
	if _, err := ansible.Read(declare.File{Name: "hosts", Data: []byte(text)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	_, skipped := labels(t, "hosts", "[odd$group]\nh x=\nb@d\n", ansible.Options{Variables: []string{"x"}})
	var got []string
	for _, s := range skipped {
		got = append(got, s.Name+": "+s.Reason)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"h: label group.odd$group: ", "h: label x: the variable is not a single", "b@d: "} {
		if !strings.Contains(all, want) {
			t.Errorf("lacks %q:\n%s", want, all)
		}
	}
}

func TestAWrongInventoryIsRefusedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"an unknown section": {"hosts", "[web:host]\n", "hosts:1: "},
		"an open quote":      {"hosts", "\nh a=\"b\n", "hosts:2: a quote \" is not closed"},
		"a word":             {"hosts", "h a\n", "hosts:1: \"a\" is not NAME=VALUE"},
		"a wrong variable":   {"hosts", "[g:vars]\nabc\n", "hosts:2: \"abc\" is not NAME=VALUE"},
		"an open range":      {"hosts", "web[1:2\n", "hosts:1: "},
		"a backward range":   {"hosts", "web[5:1]\n", "empty or too large"},
		"a mixed range":      {"hosts", "web[1:b]\n", "mixes"},
		"a huge range":       {"hosts", "web[1:999999999]\n", "more than 100000 hosts"},
		"two huge ranges":    {"hosts", "web[1:1000]x[1:1000]\n", "more than 100000 hosts"},
		"a step of nothing":  {"hosts", "web[1:9:0]\n", "step"},
		"two children":       {"hosts", "[a:children]\nb c\n", "unexpected \"c\""},
		"an unknown child":   {"hosts", "[db-a]\nh\n[a:children]\ndb\n", `hosts:4: [a:children] names the group "db"`},
		"a host as a child":  {"hosts", "[a:children]\n192.0.2.3\n", `no section [192.0.2.3] defines`},
		"unknown variables":  {"hosts", "[web]\nh\n[webb:vars]\nx=1\n", `hosts:3: section [webb:vars] names the group`},
		"the nearest group":  {"hosts", "[web]\nh\n[webb:vars]\nx=1\n", `the nearest one is "web"`},
		"a name with spaces": {"hosts", "[my web servers]\nh\n", "hosts:1: section [my web servers]: the name"},
		"a vault":            {"h.yml", "$ANSIBLE_VAULT;1.1;AES256\n66\n", "h.yml is encrypted by ansible-vault"},
		"a program":          {"h.py", "#!/usr/bin/env python3\n", "ansible-inventory -i h.py --list"},
		"an unknown key":     {"h.yaml", "all: {host: {}}", "h.yaml:1: group \"all\" has the key \"host\""},
		"a list of hosts":    {"h.yaml", "all:\n  hosts: [a]", "h.yaml:2: not a mapping"},
		"an alias":           {"h.yaml", "all: {vars: &v {a: b}}", "anchors"},
		"no YAML":            {"h.yaml", "a: b: c", "h.yaml"},
		"a group as list":    {"h.json", `{"_meta": {}, "g": ["h"]}`, "group \"g\""},
	} {
		i, err := ansible.Read(declare.File{Name: c.file, Data: []byte(c.text)})
		if err == nil {
			_, _, err = i.Objects(ansible.Options{})
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
	i, err := ansible.Read(declare.File{Name: "hosts", Data: []byte("[a:children]\nb\n[b:children]\na\n[a]\nh\n")})
	if err == nil {
		_, err = i.Hosts()
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("groups in each other: %v", err)
	}
	if i, err = ansible.Read(declare.File{Name: "hosts", Data: []byte("h\n")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Objects(ansible.Options{Environments: []string{"none-such"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown group: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{ini, yamlText, list} {
		f.Add("hosts", text)
		f.Add("hosts.yaml", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		i, err := ansible.Read(declare.File{Name: name, Data: []byte(text)})
		if err != nil {
			return
		}
		_, _, err = i.Objects(ansible.Options{Variables: []string{"rack"}})
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
	})
}
