// Package ansible reads inventories of Ansible and says which servers and labels Garrison makes of them. It is pure.
//
// It takes the INI form, the YAML form, and the JSON that ansible-inventory --list prints, which has resolved
// everything already. A host becomes a server, and each of its groups, with the groups that those are in, the label
// group.NAME=true. Variables become labels only when they are named: most say how to log in, and some are secrets.
//
// Guarantees:
//
//  1. Read refuses what it does not understand, with its line: unknown sections, broken ranges, unclosed quotes,
//     groups that are named and not defined.
//  2. A range such as web[01:20] is bounded, and so is the number of hosts.
//  3. A variable of a host wins over those of its groups; of groups, a child wins over its parent, and of others the
//     last by name, as in Ansible.
package ansible

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/garrison-fleet/garrison/pkg/text"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// Read reads an inventory. Its form is known by its end: .yaml, .yml and .json, or INI; a JSON object with the key
// _meta is what ansible-inventory --list prints, whatever the file's name.
func Read(f declare.File) (*Inventory, error) {
	if len(f.Data) > declare.MaxFile {
		return nil, refuse("%s has %d bytes; %d are the most", f.Name, len(f.Data), declare.MaxFile)
	}
	plain := f.Data
	if yamlEnding := slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(f.Name)); !yamlEnding {
		var err error
		if plain, err = text.Plain(f.Data); err != nil {
			return nil, refuse("%s: %v", f.Name, err)
		}
	}
	data := bytes.TrimSpace(plain)
	if err := otherForm(f.Name, data); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte("{")) {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(data, &keys); err == nil && keys[metaKey] != nil {
			return readList(f.Name, data)
		}
	}
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f.Name)) && !looksLikeYAML(data) {
		return readINI(f.Name, string(plain))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(plain, &doc); err != nil {
		return nil, refuse("%s: %v", f.Name, err)
	}
	if len(doc.Content) == 0 {
		return newInventory(), nil
	}
	return readYAML(f.Name, doc.Content[0])
}

// otherForm refuses an encrypted inventory and one that is a program, which Ansible itself can read.
func otherForm(file string, data []byte) error {
	const way = "ansible-inventory -i %[1]s --list > list.json, and import that file"
	switch {
	case bytes.HasPrefix(data, []byte("$ANSIBLE_VAULT;")):
		return refuse("%[1]s is encrypted by ansible-vault. Decrypt it, or run "+way, file)
	case bytes.HasPrefix(data, []byte("#!")):
		return refuse("%[1]s is a program that prints an inventory. Run "+way, file)
	}
	return nil
}

// looksLikeYAML reports whether a file without an ending is YAML: it begins with a document, or with a group and a
// colon.
func looksLikeYAML(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSpace(line)
	return bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("{")) ||
		bytes.HasSuffix(line, []byte(":")) && !bytes.HasPrefix(line, []byte("["))
}

// listed is what ansible-inventory --list prints, but for the groups.
type listed struct {
	Meta struct {
		HostVars map[string]map[string]any `json:"hostvars"`
	} `json:"_meta"`
}

// listedGroup is a group of it.
type listedGroup struct {
	Hosts    []string       `json:"hosts"`
	Children []string       `json:"children"`
	Vars     map[string]any `json:"vars"`
}

// metaKey is the key with the variables of hosts, by which the form is known.
const metaKey = "_meta"

// readList reads what ansible-inventory --list prints. Its names have no ranges.
func readList(file string, data []byte) (*Inventory, error) {
	var meta listed
	var groups map[string]json.RawMessage
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, refuse("%s: %v", file, err)
	}
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, refuse("%s: %v", file, err)
	}
	delete(groups, metaKey)
	i := newInventory()
	for name, raw := range groups {
		var g listedGroup
		if err := json.Unmarshal(raw, &g); err != nil {
			return nil, refuse("%s: group %q: %v", file, name, err)
		}
		to := i.group(name)
		for _, child := range g.Children {
			i.group(child)
			to.children[child] = true
		}
		for k, v := range single(g.Vars) {
			to.vars[k] = v
		}
		for _, h := range g.Hosts {
			if err := i.host(h, name, single(meta.Meta.HostVars[h])); err != nil {
				return nil, refuse("%s: %v", file, err)
			}
		}
	}
	return i, nil
}

// single returns variables; those that are not a single value are empty.
func single(all map[string]any) vars {
	out := vars{}
	for k, v := range all {
		out[k] = ""
		switch v := v.(type) {
		case string:
			out[k] = v
		case bool, float64:
			text, _ := json.Marshal(v) // never fails for these
			out[k] = string(text)
		}
	}
	return out
}
