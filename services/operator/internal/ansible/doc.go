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
