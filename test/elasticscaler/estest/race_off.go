//go:build !race

package estest

const raceDetector = false
