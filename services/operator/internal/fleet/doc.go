// Package fleet reads what several commands need from the services: servers, instances, tasks, and intents with their
// progress.
package fleet
