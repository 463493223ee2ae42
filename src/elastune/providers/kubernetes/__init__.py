"""The Kubernetes provider: nodes are worker pods of a RayCluster of KubeRay."""
