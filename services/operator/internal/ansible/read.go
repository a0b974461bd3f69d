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
