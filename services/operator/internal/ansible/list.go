package ansible

import (
	"encoding/json"
)

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
