package main

type object = map[string]any

const (
	containerName = "web"
	// The port that the image has to listen on, and that of the Service.
	port = 80
)

// children returns the objects that belong to a Website. All have its name.
func (site *Website) children(name string) []any {
	labels := object{"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": name}
	metadata := object{"name": name, "labels": labels}
	container := object{
		"name":           containerName,
		"image":          site.Spec.Image,
		"ports":          []object{{"name": "http", "containerPort": port}},
		"readinessProbe": object{"tcpSocket": object{"port": "http"}},
	}
	deployment := object{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   metadata,
		"spec": object{
			"replicas": site.Spec.Replicas,
			"selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{"containers": []object{container}}},
		},
	}
	service := object{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   metadata,
		"spec":       object{"selector": labels, "ports": []object{{"name": "http", "port": port, "targetPort": "http"}}},
	}
	if site.Spec.Host == "" {
		return []any{deployment, service}
	}
	backend := object{"service": object{"name": name, "port": object{"name": "http"}}}
	path := object{"path": "/", "pathType": "Prefix", "backend": backend}
	ingress := object{
		"apiVersion": "networking.k8s.io/v1",
		"kind":       "Ingress",
		"metadata":   metadata,
		"spec":       object{"rules": []object{{"host": site.Spec.Host, "http": object{"paths": []object{path}}}}},
	}
	return []any{deployment, service, ingress}
}
